package protocol

import (
	"embed"
	"fmt"
	"io/fs"
	"slices"
	"strings"
)

//go:embed *.lua parts/*.lua
var files embed.FS

// mark begins a line that stands for a part: --@queue for parts/queue.lua.
const mark = "--@"

// line is a line of a script.
type line struct {
	file  string // where it stands
	text  string // without indentation
	depth int    // how deep it is indented in the script
}

// compose returns the lines of a script: those of its file, and in the place of each mark those of the part. The marks
// are the list of a script's parts. A part that the script has already is left out: rest.lua ends with the mark of
// release.lua, some of whose parts rest.lua has.
func compose(from fs.FS, name string) ([]line, error) {
	c := &composition{from: from}
	if err := c.add(name+".lua", 0); err != nil {
		return nil, fmt.Errorf("script %s: %w", name, err)
	}
	return c.lines, nil
}

// composition is a script that is being put together.
type composition struct {
	from  fs.FS
	has   []string // the files that it has
	lines []line
}

// add adds a file at a place that is indented so deep.
func (c *composition) add(file string, depth int) error {
	if slices.Contains(c.has, file) {
		return nil
	}
	c.has = append(c.has, file)
	all, err := fs.ReadFile(c.from, file)
	if err != nil {
		return fmt.Errorf("no file %s", file)
	}
	for text := range strings.Lines(string(all)) {
		text = strings.TrimRight(text, "\n")
		bare := strings.TrimLeft(text, " ")
		at := depth + len(text) - len(bare)
		part, marked := strings.CutPrefix(bare, mark)
		if !marked {
			c.lines = append(c.lines, line{file, bare, at})
			continue
		}
		if err := c.add(fileOf(part), at); err != nil {
			return err
		}
	}
	return nil
}

// fileOf returns the file for which a mark stands: a part's, or that of the script whose end another one shares.
func fileOf(name string) string {
	if name == "release" {
		return "release.lua"
	}
	return "parts/" + name + ".lua"
}

// textOf returns what is sent of a script: its lines without comments and indentation.
func textOf(lines []line) string {
	var sent []string
	for _, l := range lines {
		if l.text != "" && !strings.HasPrefix(l.text, "--") {
			sent = append(sent, l.text)
		}
	}
	return strings.Join(sent, "\n")
}
