// Command sentences reports whether the pages of the documentation have short sentences and
// short paragraphs. make sentences calls it; with -v it lists each one that is too long.
//
//	sentences [-v] [PAGE...]    all pages of the repository below the current folder, or these
//
// A page is read as blocks (blocks.go): paragraphs, list items and table cells, as a reader sees
// them (inline.go). A block is split into sentences, and these into words (count.go).
package main

import (
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// The limits. A sentence that is longer must be read twice, and so must a paragraph of more than
// six lines of 120 characters. Some sentences may be long, for example one that lists names.
const (
	maxWords          = 30
	maxParagraph      = 720 // characters, without the targets of links
	maxLongShare      = 3.0 // percent of the sentences of all pages together
	maxLongShareOfOne = 6.0 // percent of the sentences of one page
)

// unread are the pages that are left out: the changelog is a list of changes, and cmd/redlock
// makes the manual of the tool's help texts.
var unread = []string{"CHANGELOG.md", "docs/redlock.1.md"}

func main() {
	exceeded, err := run(".", os.Args[1:], os.Stdout)
	if err != nil {
		exceeded = []string{err.Error()}
	}
	for _, limit := range exceeded {
		fmt.Fprintln(os.Stderr, "sentences:", limit)
	}
	if len(exceeded) > 0 {
		os.Exit(1)
	}
}

// run counts the pages that args name, or all pages below root, and prints a line for each. It
// returns which limits they exceed.
func run(root string, args []string, out io.Writer) (exceeded []string, err error) {
	flags := flag.NewFlagSet("sentences", flag.ContinueOnError)
	verbose := flags.Bool("v", false, "list each sentence and paragraph that is too long")
	if err := flags.Parse(args); err != nil {
		return nil, err
	}
	paths := flags.Args()
	if len(paths) == 0 {
		if paths, err = pages(root); err != nil {
			return nil, err
		}
	}
	total := count{path: "all pages"}
	fmt.Fprintf(out, "%9s %9s %7s %7s %10s\n", "sentences", fmt.Sprintf("over %d", maxWords), "share", "longest", "paragraphs")
	for _, path := range paths {
		text, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(path)))
		if err != nil {
			return nil, err
		}
		page := countPage(path, string(text))
		fmt.Fprintln(out, page.row())
		if *verbose {
			fmt.Fprint(out, page.details())
		}
		if page.share() > maxLongShareOfOne {
			exceeded = append(exceeded, fmt.Sprintf("%s: %.1f%% of the sentences have more than %d words, the limit of a page is %.0f%%",
				path, page.share(), maxWords, maxLongShareOfOne))
		}
		total.add(page)
	}
	fmt.Fprintln(out, total.row())
	return append(exceeded, total.exceeded()...), nil
}

// pages returns the Markdown pages below root, from there, with slashes.
func pages(root string) (paths []string, err error) {
	err = filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		hidden := strings.HasPrefix(entry.Name(), ".") && relative != "."
		switch {
		case entry.IsDir() && (hidden || entry.Name() == "out" || entry.Name() == "dist"):
			return filepath.SkipDir
		case !entry.IsDir() && filepath.Ext(path) == ".md" && !slices.Contains(unread, filepath.ToSlash(relative)):
			paths = append(paths, filepath.ToSlash(relative))
		}
		return nil
	})
	return paths, err
}
