package main

import (
	"context"
	"log/slog"
	"strings"

	"github.com/spf13/cobra"
)

// logger returns a logger to stderr. It logs hazards; with --verbose, or on a terminal, also
// information; with --quiet only what keeps locks from being granted.
func (s *settings) logger(cmd *cobra.Command) *slog.Logger {
	level := slog.LevelWarn
	switch {
	case s.quiet && !s.verbose:
		level = slog.LevelError
	case s.verbose || isTerminal(cmd.ErrOrStderr()):
		level = slog.LevelInfo
	}
	handler := slog.NewTextHandler(cmd.ErrOrStderr(), &slog.HandlerOptions{
		Level: level,
		ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		},
	})
	if s.verbose {
		return slog.New(handler)
	}
	return slog.New(terse{handler, s.showsNodes})
}

// terse shortens what the library logs; --verbose shows it whole. It drops lines about leases: the tool itself
// says in one line what became of its lock. Each call of the tool meets a node that waits before it votes as new:
// one short line is enough, and none if the output says so.
type terse struct {
	slog.Handler
	showsNodes bool
}

func (h terse) Handle(ctx context.Context, r slog.Record) error {
	said := func(start string) bool { return strings.HasPrefix(r.Message, "redlock: "+start) }
	waits := said("a node has no record of this run")
	switch {
	case said("a lease "):
		return nil
	case h.showsNodes && (waits || said("a node waits for longer") || said("a node's wait is over") ||
		said("a majority of the nodes has no record")):
		return nil
	case waits:
		r.Message = "redlock: a node does not vote yet"
	}
	return h.Handler.Handle(ctx, r)
}

func (h terse) WithAttrs(attrs []slog.Attr) slog.Handler {
	return terse{h.Handler.WithAttrs(attrs), h.showsNodes}
}

func (h terse) WithGroup(name string) slog.Handler {
	return terse{h.Handler.WithGroup(name), h.showsNodes}
}
