package redlockasynq

import (
	"fmt"
	"log/slog"

	"github.com/hibiken/asynq"
)

// logger writes to the program's asynq.Logger; to slog's default logger if there is none.
type logger struct {
	to    asynq.Logger
	level asynq.LogLevel // and above
}

func newLogger(opts *asynq.SchedulerOpts) logger {
	l := logger{opts.Logger, opts.LogLevel}
	if l.level == 0 {
		l.level = asynq.InfoLevel // as asynq
	}
	return l
}

func (l logger) infof(format string, args ...any) {
	l.write(asynq.InfoLevel, asynq.Logger.Info, slog.Info, format, args)
}

func (l logger) warnf(format string, args ...any) {
	l.write(asynq.WarnLevel, asynq.Logger.Warn, slog.Warn, format, args)
}

func (l logger) errorf(format string, args ...any) {
	l.write(asynq.ErrorLevel, asynq.Logger.Error, slog.Error, format, args)
}

func (l logger) write(
	level asynq.LogLevel, method func(asynq.Logger, ...any), fallback func(string, ...any), format string, args []any,
) {
	switch text := fmt.Sprintf(format, args...); {
	case level < l.level:
	case l.to == nil:
		fallback(text)
	default:
		method(l.to, text)
	}
}
