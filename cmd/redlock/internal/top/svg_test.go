package top

import (
	"flag"
	"fmt"
	"html"
	"os"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/gdamore/tcell/v2"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var pictures = flag.Bool("pictures", false, "draw docs/pictures anew: make pictures")

// The size of a cell, and of the window around the cells, in units of the picture.
const (
	cellWidth, cellHeight = 8.4, 20.0
	margin, titleHeight   = 18.0, 36.0
)

// theme has the colours of a picture.
type theme struct {
	window, border, title, text, dim string
	palette                          map[tcell.Color]string
}

var themes = map[string]theme{
	"light": {"#ffffff", "#d0d7de", "#f6f8fa", "#1f2328", "#6e7781", map[tcell.Color]string{
		tcell.PaletteColor(1): "#cf222e", tcell.PaletteColor(2): "#1a7f37", tcell.PaletteColor(3): "#9a6700"}},
	"dark": {"#0d1117", "#30363d", "#161b22", "#e6edf3", "#8b949e", map[tcell.Color]string{
		tcell.PaletteColor(1): "#ff7b72", tcell.PaletteColor(2): "#3fb950", tcell.PaletteColor(3): "#d29922"}},
}

// shapes are drawn in place of signs that fonts draw in many ways: paths in a cell whose middle is 0,0.
var shapes = map[string]string{
	"●": `<circle r="3.4"/>`,
	"○": `<circle r="2.8" fill="none" stroke="currentColor" stroke-width="1.2"/>`,
	"◆": `<path d="M0-4.2 4 0 0 4.2-4 0z"/>`,
	"◐": `<circle r="2.9" fill="none" stroke="currentColor" stroke-width="1.1"/><path d="M0-3.4A3.4 3.4 0 0 0 0 3.4z"/>`,
	"✕": `<path d="M-3-3 3 3M3-3-3 3" fill="none" stroke="currentColor" stroke-width="1.7"/>`,
	"↻": `<path d="M2.6-1.8A3.3 3.3 0 1 0 3.2 1M3.2-4.2V-1.4H.6" fill="none" stroke="currentColor" stroke-width="1.2"/>`,
	"↓": `<path d="M0-4V3.4M-2.6 1 0 3.6 2.6 1" fill="none" stroke="currentColor" stroke-width="1.2"/>`,
}

// look is a style as a picture has it.
type look struct {
	colour        string
	bold, reverse bool
}

func (t *theme) look(s tcell.Style) look {
	foreground, _, attributes := s.Decompose()
	l := look{colour: t.text, bold: attributes&tcell.AttrBold != 0, reverse: attributes&tcell.AttrReverse != 0}
	if c, known := t.palette[foreground]; known {
		l.colour = c
	}
	if attributes&tcell.AttrDim != 0 {
		l.colour = t.dim
	}
	if l.reverse {
		l.colour = t.window
	}
	return l
}

// svg draws the cells of a screen as a window.
func svg(screen tcell.SimulationScreen, t theme, title, description string) string {
	all, columns, rows := screen.GetContents()
	w, h := float64(columns)*cellWidth+2*margin, float64(rows)*cellHeight+titleHeight+2*margin*0.8
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %.0f %.0f" width="%.0f" height="%.0f" role="img" aria-labelledby="t d">`+"\n", w, h, w, h)
	fmt.Fprintf(&b, "<title id=\"t\">%s</title>\n<desc id=\"d\">%s</desc>\n", title, html.EscapeString(description))
	b.WriteString("<style>text{font:14px ui-monospace,SFMono-Regular,Menlo,Consolas,\"DejaVu Sans Mono\",monospace;white-space:pre}.b{font-weight:600}</style>\n<defs>")
	for i, sign := range shapeSigns {
		fmt.Fprintf(&b, `<g id="s%d">%s</g>`, i, shapes[sign])
	}
	fmt.Fprintf(&b, "</defs>\n<rect x=\".5\" y=\".5\" width=\"%.0f\" height=\"%.0f\" rx=\"10\" fill=\"%s\" stroke=\"%s\"/>\n", w-1, h-1, t.window, t.border)
	fmt.Fprintf(&b, `<path d="M.5 %.0fV10.5a10 10 0 0 1 10-10H%.1fa10 10 0 0 1 10 10V%.0fz" fill="%s" stroke="%s"/>`+"\n", titleHeight, w-10.5, titleHeight, t.title, t.border)
	for i, colour := range []string{"#ff5f57", "#febc2e", "#28c840"} {
		fmt.Fprintf(&b, `<circle cx="%d" cy="18" r="6" fill="%s"/>`, 20+20*i, colour)
	}
	fmt.Fprintf(&b, "<text x=\"%.0f\" y=\"23\" text-anchor=\"middle\" fill=\"%s\">%s</text>\n", w/2, t.dim, title)
	for y := range rows {
		cellRow(&b, all[y*columns:(y+1)*columns], y, &t)
	}
	b.WriteString("</svg>\n")
	return b.String()
}

var shapeSigns = []string{"●", "○", "◆", "◐", "✕", "↻", "↓"}

// cellRow draws a row of cells: runs of one look, each at its own place and of its own length.
func cellRow(b *strings.Builder, all []tcell.SimCell, y int, t *theme) {
	bottom := titleHeight + margin*0.8 + float64(y)*cellHeight
	if x := slices.IndexFunc(all, func(c tcell.SimCell) bool { return t.look(c.Style).reverse }); x >= 0 { // to the end
		fmt.Fprintf(b, `<rect x="%.1f" y="%.1f" width="%.1f" height="%.0f" rx="3" fill="%s"/>`, margin+float64(x)*cellWidth-4, bottom,
			float64(len(all)-x)*cellWidth+8, cellHeight, t.text)
	}
	for x := 0; x < len(all); {
		is := t.look(all[x].Style)
		end := x + 1
		sign := string(all[x].Runes)
		for shapes[sign] == "" && end < len(all) && t.look(all[end].Style) == is && shapes[string(all[end].Runes)] == "" {
			end++
		}
		left := margin + float64(x)*cellWidth
		if shapes[sign] != "" {
			fmt.Fprintf(b, `<use href="#s%d" x="%.1f" y="%.1f" fill="%s" color="%s"/>`, slices.Index(shapeSigns, sign), left+cellWidth/2, bottom+cellHeight/2, is.colour, is.colour)
		} else {
			textRun(b, all[x:end], left, bottom+cellHeight*0.72, is)
		}
		x = end
	}
	b.WriteByte('\n')
}

// textRun draws words of one look: each at its own place, since fonts are not equally wide.
func textRun(b *strings.Builder, run []tcell.SimCell, left, base float64, is look) {
	var text strings.Builder
	for i := range run {
		text.WriteString(string(run[i].Runes))
	}
	class := ""
	if is.bold {
		class = ` class="b"`
	}
	at := 0
	for _, part := range strings.SplitAfter(text.String(), "  ") {
		whole := utf8.RuneCountInString(part)
		if part = strings.TrimRight(part, " "); part != "" {
			lead := utf8.RuneCountInString(part) - utf8.RuneCountInString(strings.TrimLeft(part, " "))
			shown := strings.TrimLeft(part, " ")
			fmt.Fprintf(b, `<text x="%.1f" y="%.1f" textLength="%.1f"%s fill="%s">%s</text>`, left+float64(at+lead)*cellWidth, base,
				float64(utf8.RuneCountInString(shown))*cellWidth, class, is.colour, html.EscapeString(shown))
		}
		at += whole
	}
}

// The pictures of the documentation are the program's own cells. They change with the program: make pictures.
func TestPicturesAreTheProgramsOwnCells(t *testing.T) {
	f := &face{}
	f.take(demo())
	screen := drawn(t, f, 129, 23)
	for name, theme := range themes {
		path := "../../../../docs/pictures/top-" + name + ".svg"
		picture := svg(screen, theme, "redlock top", textOf(screen))
		assert.Less(t, len(picture), 40_000)
		if *pictures {
			require.NoError(t, os.MkdirAll("../../../../docs/pictures", 0o755))
			require.NoError(t, os.WriteFile(path, []byte(picture), 0o644))
		}
		is, err := os.ReadFile(path)
		require.NoError(t, err)
		assert.Equal(t, picture, string(is), "%s is stale: make pictures", path)
	}
}
