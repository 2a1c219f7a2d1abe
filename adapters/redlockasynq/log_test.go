package redlockasynq

import (
	"bytes"
	"log/slog"
	"testing"

	"github.com/hibiken/asynq"
	"github.com/stretchr/testify/assert"
)

func TestLinesBelowTheLevelAreNotLogged(t *testing.T) {
	for level, want := range map[asynq.LogLevel]string{
		0:                "i\nw\ne", // not set
		asynq.DebugLevel: "i\nw\ne",
		asynq.WarnLevel:  "w\ne",
		asynq.FatalLevel: "",
	} {
		got := &lines{}
		log := newLogger(&asynq.SchedulerOpts{Logger: got, LogLevel: level})
		log.infof("i")
		log.warnf("w")
		log.errorf("%s", "e")
		assert.Equal(t, want, got.String(), "level %d", level)
	}
}

func TestSlogsDefaultIsTheLoggerWithoutAnother(t *testing.T) {
	var got bytes.Buffer
	before := slog.Default()
	defer slog.SetDefault(before)
	slog.SetDefault(slog.New(slog.NewTextHandler(&got, nil)))
	newLogger(&asynq.SchedulerOpts{}).warnf("task %q", "a")
	assert.Contains(t, got.String(), "level=WARN")
	assert.Contains(t, got.String(), `task \"a\"`)
}
