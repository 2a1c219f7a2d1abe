package docs_test

import (
	"flag"
	"fmt"
	"html"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var drawDiagrams = flag.Bool("draw", false, "write the diagrams of docs/pictures anew, from their sources")

// Each *.seq of docs/pictures is the source of a diagram: who sends what to whom.
//
//	title TEXT
//	actors NAME …          from left to right; a number is a master
//	down NAME              it answers nothing
//	send NAME … -> NAME …: TEXT
//	note NAME TEXT         what an actor does, or knows
//	later                  time passes
func TestDiagramsAreMadeOfTheirSources(t *testing.T) {
	sources, err := filepath.Glob("pictures/*.seq")
	require.NoError(t, err)
	require.Len(t, sources, 3)
	for _, source := range sources {
		text, err := os.ReadFile(source)
		require.NoError(t, err)
		d := &diagram{down: map[string]bool{}}
		for line := range strings.Lines(string(text)) {
			require.NoError(t, d.add(strings.TrimSpace(line)), "%s: %s", source, line)
		}
		name := strings.TrimSuffix(source, ".seq") + ".svg"
		if *drawDiagrams {
			require.NoError(t, os.WriteFile(name, []byte(d.svg()), 0o644))
		}
		drawn, err := os.ReadFile(name)
		require.NoError(t, err)
		assert.Equal(t, d.svg(), string(drawn), "%s is stale: go test ./docs -run Diagrams -draw", name)
	}
}

const (
	firstColumn  = 100 // of an actor's line
	columnWidth  = 110
	headerHeight = 88
	slant        = 3  // by which a message falls for each column
	spacing      = 8  // between messages of one step
	lineHeight   = 17 // of text
	noteWidth    = 86 // characters
)

// diagram is a sequence diagram that is being drawn from the top.
type diagram struct {
	title  string
	actors []string
	down   map[string]bool
	body   strings.Builder
	y      int
}

// add draws a line of the source.
func (d *diagram) add(line string) error {
	verb, rest, _ := strings.Cut(line, " ")
	switch verb {
	case "title":
		d.title, d.y = rest, headerHeight
	case "actors":
		d.actors = strings.Fields(rest)
	case "down":
		d.down[rest] = true
	case "later":
		fmt.Fprintf(&d.body, `<text class="faint" x="%d" y="%d" text-anchor="middle">⋮</text>`+"\n", d.width()/2, d.y+lineHeight)
		d.y += 2 * lineHeight
	case "note":
		who, text, _ := strings.Cut(rest, " ")
		if !slices.Contains(d.actors, who) {
			return fmt.Errorf("there is no %q", who)
		}
		d.note(who, text)
	case "send":
		way, text, _ := strings.Cut(rest, ": ")
		from, to, _ := strings.Cut(way, " -> ")
		return d.send(strings.Fields(from), strings.Fields(to), text)
	default:
		return fmt.Errorf("there is no %q", verb)
	}
	return nil
}

func (d *diagram) width() int { return 2*firstColumn + columnWidth*(len(d.actors)-1) }

// x returns where an actor's line is.
func (d *diagram) x(actor string) int {
	return firstColumn + columnWidth*slices.Index(d.actors, actor)
}

// isOnTheRight reports whether an actor's texts stand on the right side.
func (d *diagram) isOnTheRight(actor string) bool {
	return actor == d.actors[len(d.actors)-1]
}

// send draws a message between one actor and several.
func (d *diagram) send(from, to []string, text string) error {
	for _, actor := range slices.Concat(from, to) {
		if !slices.Contains(d.actors, actor) {
			return fmt.Errorf("there is no %q", actor)
		}
	}
	one := from[0]
	if len(to) == 1 {
		one = to[0]
	}
	x, anchor := d.x(one)+10, "start"
	if d.isOnTheRight(one) {
		x, anchor = d.x(one)-10, "end"
	}
	d.y += lineHeight
	fmt.Fprintf(&d.body, `<text x="%d" y="%d" text-anchor="%s">%s</text>`+"\n", x, d.y, anchor, html.EscapeString(text))
	d.y += 10
	for _, f := range from {
		for _, t := range to {
			d.arrow(f, t)
		}
	}
	d.y += slant*len(d.actors)/2 + 8
	return nil
}

// arrow draws a message from one actor to another, each below the one before.
func (d *diagram) arrow(from, to string) {
	gap := 5
	if d.x(to) < d.x(from) {
		gap = -5
	}
	x, y := d.x(to)-gap, d.y+slant*abs(slices.Index(d.actors, from)-slices.Index(d.actors, to))
	if d.down[to] {
		x -= 3 * gap
		fmt.Fprintf(&d.body, `<path class="message lost" d="M%d %d L%d %d"/>`+"\n", d.x(from), d.y, x, y)
		fmt.Fprintf(&d.body, `<text class="dead" x="%d" y="%d" text-anchor="middle">✕</text>`+"\n", x+gap, y+4)
	} else {
		fmt.Fprintf(&d.body, `<path class="message" d="M%d %d L%d %d" marker-end="url(#tip)"/>`+"\n", d.x(from), d.y, x, y)
	}
	d.y += spacing
}

// note draws what an actor does.
func (d *diagram) note(who, text string) {
	lines := brokenInto(noteWidth, text)
	x, anchor, bar := d.x(who)+10, "start", d.x(who)-2
	if d.isOnTheRight(who) {
		x, anchor = d.x(who)-10, "end"
	}
	fmt.Fprintf(&d.body, `<rect class="bar" x="%d" y="%d" width="4" height="%d"/>`+"\n", bar, d.y+4, lineHeight*len(lines)+2)
	for _, line := range lines {
		d.y += lineHeight
		fmt.Fprintf(&d.body, `<text class="note" x="%d" y="%d" text-anchor="%s">%s</text>`+"\n", x, d.y, anchor, html.EscapeString(line))
	}
	d.y += 14
}

// brokenInto breaks a text into lines of at most so many characters.
func brokenInto(width int, text string) (lines []string) {
	line := ""
	for _, word := range strings.Fields(text) {
		if line != "" && len(line)+1+len(word) > width {
			lines, line = append(lines, line), ""
		}
		line = strings.TrimSpace(line + " " + word)
	}
	return append(lines, line)
}

func abs(n int) int { return max(n, -n) }

// svg returns the picture. It is light or dark as its reader's system is.
func (d *diagram) svg() string {
	height := d.y + 16
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" role="img" aria-label="%s">`+"\n",
		d.width(), height, d.width(), height, html.EscapeString(d.title))
	b.WriteString(`<style>
svg { --ink: #1f2328; --faint: #6e7781; --back: #ffffff; --line: #d0d7de; --go: #0969da; --bad: #cf222e; background: var(--back); }
@media (prefers-color-scheme: dark) { svg { --ink: #e6edf3; --faint: #8d96a0; --back: #0d1117; --line: #30363d; --go: #58a6ff; --bad: #ff7b72; } }
text { font: 13px system-ui, sans-serif; fill: var(--ink); paint-order: stroke; stroke: var(--back); stroke-width: 5px; }
.title { font-size: 16px; font-weight: 600; } .actor { font-weight: 600; } .note { fill: var(--faint); } .faint { fill: var(--faint); } .dead { fill: var(--bad); }
.life { stroke: var(--line); stroke-width: 2; } .message { stroke: var(--go); stroke-width: 1.5; } .lost { stroke: var(--bad); stroke-dasharray: 4 4; }
.bar { fill: var(--faint); } .tip { fill: var(--go); }
</style>
<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto"><path class="tip" d="M0 0 L8 4 L0 8 z"/></marker></defs>
`)
	fmt.Fprintf(&b, `<rect width="%d" height="%d" fill="var(--back)"/>`+"\n", d.width(), height)
	fmt.Fprintf(&b, `<text class="title" x="20" y="30">%s</text>`+"\n", html.EscapeString(d.title))
	for _, actor := range d.actors {
		name, class := actor, "actor"
		if actor[0] >= '0' && actor[0] <= '9' {
			name = "master " + actor
		}
		if d.down[actor] {
			name, class = name+" ✕", "actor dead"
		}
		fmt.Fprintf(&b, `<path class="life" d="M%d %d V%d"/>`+"\n", d.x(actor), headerHeight-18, height-8)
		fmt.Fprintf(&b, `<text class="%s" x="%d" y="%d" text-anchor="middle">%s</text>`+"\n", class, d.x(actor), headerHeight-26, name)
	}
	b.WriteString(d.body.String())
	b.WriteString("</svg>\n")
	return b.String()
}
