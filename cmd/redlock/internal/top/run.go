package top

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"sync"
	"time"

	"github.com/gdamore/tcell/v2"

	"github.com/redlock-go/redlock/internal/overview"
)

// Options are a Run's.
type Options struct {
	// Unlock takes a lock away from its owners, all as overview has them, and returns what it did in a sentence. It
	// must change nothing if none of them has the lock by then.
	Unlock func(ctx context.Context, name string, owners []string) (done string, err error)

	Coloured bool             // the tones have colours
	Now      func() time.Time // nil: time.Now
}

// redrawEvery is how often ages and times left are counted on.
const redrawEvery = time.Second

// unlockPatience bounds a forced unlock: without an answer the person must look again.
const unlockPatience = 15 * time.Second

// runner is what Run's goroutine has.
type runner struct {
	face    face
	screen  tcell.Screen
	watcher *overview.Watcher
	opts    Options
	broken  chan span      // the results of forced unlocks
	signals chan os.Signal // of the shell's job control
	started sync.WaitGroup
}

// Run shows a model's locks on a screen, which it initializes, until a person quits or ctx ends. The terminal
// is as it was when Run returns or panics.
func Run(ctx context.Context, screen tcell.Screen, m *overview.Model, opts Options) error {
	if opts.Now == nil {
		opts.Now = time.Now
	}
	if err := screen.Init(); err != nil {
		return err
	}
	defer screen.Fini()
	for character, text := range fallbacks() {
		screen.RegisterRuneFallback([]rune(character)[0], text)
	}
	ctx, cancel := context.WithCancel(ctx)
	r := &runner{screen: screen, opts: opts, broken: make(chan span, 1), signals: make(chan os.Signal, 1)}
	r.watcher = m.Watch(r.face.view)
	defer r.watcher.Close()
	defer r.started.Wait()
	defer cancel()
	return r.loop(ctx)
}

// loop handles one event after the other.
func (r *runner) loop(ctx context.Context) error {
	events := make(chan tcell.Event)
	r.started.Go(func() { r.screen.ChannelEvents(events, ctx.Done()) })
	notifyContinued(r.signals)
	defer signal.Stop(r.signals)
	tick := time.NewTicker(redrawEvery)
	defer tick.Stop()
	for {
		r.draw()
		select {
		case <-ctx.Done():
			return nil
		case event, open := <-events:
			if !open {
				return nil
			}
			if stop, err := r.handle(ctx, event); stop || err != nil {
				return err
			}
		case s := <-r.watcher.Updates():
			r.face.take(s)
		case r.face.message = <-r.broken:
		case <-r.signals:
			if err := r.pause(false); err != nil {
				return err
			}
		case <-tick.C:
		}
	}
}

// handle handles an event of the screen, and reports whether the person quits.
func (r *runner) handle(ctx context.Context, event tcell.Event) (stop bool, err error) {
	switch e := event.(type) {
	case *tcell.EventResize:
		r.screen.Sync()
	case *tcell.EventError:
		return true, e // the terminal is gone
	case *tcell.EventKey:
		switch r.face.key(e) {
		case quit:
			return true, nil
		case suspend:
			return false, r.pause(true)
		case show:
			r.watcher.Show(r.face.view)
		case breakIt:
			r.unlock(ctx)
		}
	}
	return false, nil
}

// unlock takes a lock away, while the screen goes on.
func (r *runner) unlock(ctx context.Context) {
	t := r.face.breaking
	name, owners := t.names[t.chosen], t.owners[t.chosen]
	r.started.Go(func() {
		ctx, cancel := context.WithTimeout(ctx, unlockPatience)
		defer cancel()
		done, err := r.opts.Unlock(ctx, name.Raw, owners)
		said := span{done, good}
		if err != nil {
			said = span{fmt.Sprintf("%s: %v", name.Text, err), bad}
		}
		select {
		case r.broken <- said:
		case <-ctx.Done():
		}
	})
}

// pause gives the terminal back and, if stop is set, stops the process. When the process goes on, pause
// takes the terminal again.
func (r *runner) pause(stop bool) error {
	if err := r.screen.Suspend(); err != nil {
		return err
	}
	if stop {
		stopProcess(r.signals)
	}
	if err := r.screen.Resume(); err != nil {
		return err
	}
	r.screen.Sync()
	return nil
}

// draw draws the page.
func (r *runner) draw() {
	columns, rows := r.screen.Size()
	drawPage(r.screen, r.face.page(r.opts.Now(), columns, rows), r.opts.Coloured)
	r.screen.Show()
}

// drawPage puts lines into the cells of a screen.
func drawPage(screen tcell.Screen, page []line, coloured bool) {
	screen.Clear()
	screen.HideCursor()
	for y, l := range page {
		x := 0
		for _, s := range l {
			screen.PutStrStyled(x, y, s.text, style(s.tone, coloured))
			x += width(s.text)
		}
	}
}

// style returns how a tone looks. The colours are those of the terminal's own palette, for light and dark ones.
func style(t tone, coloured bool) tcell.Style {
	s := tcell.StyleDefault
	colour := func(c int) tcell.Style {
		if !coloured {
			return s
		}
		return s.Foreground(tcell.PaletteColor(c))
	}
	switch t {
	case dim:
		return s.Dim(true)
	case bold:
		return s.Bold(true)
	case good:
		return colour(2)
	case warn:
		return colour(3)
	case bad:
		return colour(1).Bold(true)
	case goodSentence:
		return colour(2).Bold(true)
	case warnSentence:
		return colour(3).Bold(true)
	case selected:
		return s.Reverse(true)
	}
	return s
}
