package main

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The pages that are made of the commands' own help, by the form of each.
var manuals = map[string]func() form{
	"../../docs/redlock.1.md": func() form { return new(markdownForm) },
	"../../docs/redlock.1":    func() form { return new(roffForm) },
}

var update = flag.Bool("update", false, "write the manuals anew")

func TestManualIsMadeOfTheHelp(t *testing.T) {
	for path, newForm := range manuals {
		page := writeManual(newForm(), newRoot())
		if *update {
			require.NoError(t, os.WriteFile(path, []byte(page), 0o644))
		}
		written, err := os.ReadFile(path)
		require.NoError(t, err)
		assert.Equal(t, page, string(written), "%s is stale: go test -run Manual . -update", path)
	}
}

// Where groff, which man calls, and mandoc are installed, they have nothing to say against the page.
func TestManIsContentWithTheManual(t *testing.T) {
	const page = "../../docs/redlock.1"
	for _, check := range [][]string{{"groff", "-man", "-Tutf8", "-ww", "-z", page}, {"mandoc", "-T", "lint", "-W", "warning", page}} {
		if _, err := exec.LookPath(check[0]); err != nil {
			t.Logf("%s is not installed", check[0])
			continue
		}
		complaints, err := exec.Command(check[0], check[1:]...).CombinedOutput()
		assert.NoError(t, err, check[0])
		assert.Empty(t, string(complaints), check[0])
	}
}

func TestTheHelpNamesEachFieldOfTheJSON(t *testing.T) {
	for command, object := range map[string]any{"doctor": examination{}, "inspect": lockView{}} {
		help, _, err := newRoot().Find([]string{command})
		require.NoError(t, err)
		for _, field := range jsonFields(reflect.TypeOf(object)) {
			assert.Regexp(t, `\b`+field+`\b`, help.Long, "redlock %s --help", command)
		}
	}
}

// jsonFields returns the names in a type's JSON, and in that of its fields.
func jsonFields(t reflect.Type) (names []string) {
	for t.Kind() == reflect.Slice || t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct {
		return nil
	}
	for i := range t.NumField() {
		if name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ","); name != "" {
			names = append(append(names, name), jsonFields(t.Field(i).Type)...)
		}
	}
	return names
}

// form is how a manual is written.
type form interface {
	title()
	section(title string)
	text(paragraphs string) // with `code`
	code(lines, language string)
	table(head [2]string, rows [][2]string)
	page() string
}

func writeManual(f form, root *cobra.Command) string {
	f.title()
	f.section("NAME")
	f.text("redlock - " + strings.ToLower(root.Short[:1]) + root.Short[1:])
	f.section("SYNOPSIS")
	synopsis := ""
	for _, c := range described(root) {
		synopsis += "redlock " + c.Use + "\n"
	}
	f.code(synopsis+"redlock completion bash|zsh|fish|powershell", "")
	f.section("DESCRIPTION")
	f.text(root.Long)
	for _, c := range described(root) {
		f.section(strings.ToUpper("redlock " + c.Name()))
		f.text(c.Long)
		if flags := c.NonInheritedFlags().FlagUsages(); flags != "" {
			f.code(flags, "")
		}
		f.text("For example:")
		f.code(unindent(c.Example), "sh")
	}
	f.section("FLAGS OF ALL COMMANDS")
	f.code(root.PersistentFlags().FlagUsages(), "")
	f.section("EXIT STATUS")
	var exits [][2]string
	for _, line := range exitTable {
		exits = append(exits, [2]string{line.code, line.meaning})
	}
	f.table([2]string{"code", "meaning"}, exits)
	f.text("A command's own exit code may be one of these too. Messages of redlock itself, on stderr,\nbegin with `redlock:`.")
	f.section("ENVIRONMENT")
	f.table([2]string{"variable", ""}, [][2]string{
		{"`REDLOCK_NODES`", "the nodes, where `--nodes` is not given. Commands under `redlock run` inherit it, passwords included"},
		{"`REDLOCK_NAME`, `REDLOCK_NAMES`, `REDLOCK_OWNER`, `REDLOCK_TOKEN`, `REDLOCK_SLOTS`", "set for the command of `redlock run` and `redlock resume`; `REDLOCK_SLOTS` is empty without `--permits`"},
		{"`NO_COLOR`", "if it is not empty, nothing is coloured. Without a terminal nothing is anyway"},
	})
	f.section("SHELL COMPLETION")
	f.text("`source <(redlock completion bash)`, or `redlock completion --help` for other shells.")
	f.section("EXAMPLES")
	f.code(unindent(root.Example), "sh")
	return f.page()
}

// described returns the commands that have a section.
func described(root *cobra.Command) (all []*cobra.Command) {
	for _, c := range root.Commands() {
		if c.Name() != "help" && c.Name() != "completion" {
			all = append(all, c)
		}
	}
	return all
}

// markdownForm is the manual among the other pages of the documentation.
type markdownForm struct{ strings.Builder }

func (f *markdownForm) title() {
	f.WriteString("# redlock(1)\n\n<!-- Made of the help texts by cmd/redlock/manual_test.go: go test -run Manual . -update -->\n\n")
}

func (f *markdownForm) section(title string) { fmt.Fprintf(f, "## %s\n\n", title) }

func (f *markdownForm) text(paragraphs string) {
	// Angle brackets and stars mean something, but not in code.
	parts := strings.Split(paragraphs, "`")
	for i := 0; i < len(parts); i += 2 {
		parts[i] = strings.NewReplacer("<", "&lt;", "*", `\*`).Replace(parts[i])
	}
	fmt.Fprintf(f, "%s\n\n", strings.Join(parts, "`"))
}

func (f *markdownForm) code(lines, language string) {
	fmt.Fprintf(f, "```%s\n%s\n```\n\n", language, strings.TrimSuffix(lines, "\n"))
}

func (f *markdownForm) table(head [2]string, rows [][2]string) {
	fmt.Fprintf(f, "| %s |\n| --- | --- |\n", strings.TrimSuffix(strings.Join(head[:], " | "), " "))
	for _, row := range rows {
		fmt.Fprintf(f, "| %s | %s |\n", row[0], row[1])
	}
	f.WriteString("\n")
}

func (f *markdownForm) page() string {
	f.WriteString("## SEE ALSO\n\n[The README](../README.md), [safety](safety.md), [the algorithm](algorithm.md),\n[the protocol](protocol.md).\n")
	return f.String()
}

// roffForm is the manual as man(1) shows it.
type roffForm struct{ strings.Builder }

// escape makes text of roff: a backslash, and a dot or an apostrophe that begins a line, are no requests, and what
// is pasted into a shell keeps its hyphens and quotes.
func (f *roffForm) escape(text string) string {
	text = strings.NewReplacer(`\`, `\e`, "-", `\-`, "'", `\(aq`, "^", `\(ha`, "~", `\(ti`, "…", "...", "–", `\(en`, "↻", `\[u21BB]`, "↓", `\(da`).Replace(text)
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		if strings.HasPrefix(line, ".") {
			lines[i] = `\&` + line
		}
	}
	return strings.Join(lines, "\n")
}

// inline escapes text, and makes its code bold.
func (f *roffForm) inline(text string) string {
	parts := strings.Split(f.escape(text), "`")
	for i := 1; i < len(parts); i += 2 {
		parts[i] = `\fB` + parts[i] + `\fR`
	}
	return strings.Join(parts, "")
}

func (f *roffForm) title() {
	f.WriteString(`.\" Made of the help texts by cmd/redlock/manual_test.go: go test -run Manual . -update` + "\n.TH REDLOCK 1 2026-11-27 redlock\n")
}

func (f *roffForm) section(title string) { fmt.Fprintf(f, ".SH %s\n", f.escape(title)) }

func (f *roffForm) text(paragraphs string) {
	for _, paragraph := range strings.Split(strings.TrimSpace(paragraphs), "\n\n") {
		f.WriteString(".PP\n" + f.inline(paragraph) + "\n")
	}
}

func (f *roffForm) code(lines, _ string) {
	fmt.Fprintf(f, ".PP\n.nf\n.RS 4\n%s\n.RE\n.fi\n", f.escape(strings.TrimRight(lines, "\n")))
	f.WriteString(".PP\n")
}

func (f *roffForm) table(_ [2]string, rows [][2]string) {
	for _, row := range rows {
		fmt.Fprintf(f, ".TP\n%s\n%s\n", f.inline(row[0]), f.inline(row[1]))
	}
	f.WriteString(".PP\n")
}

func (f *roffForm) page() string {
	f.WriteString(".SH SEE ALSO\nhttps://pkg.go.dev/github.com/redlock\\-go/redlock, redis\\-cli(1)\n")
	page := strings.NewReplacer(".PP\n.PP\n", ".PP\n", ".PP\n.SH", ".SH").Replace(f.String())
	return regexp.MustCompile(`(\.SH [^\n]*\n)\.PP\n`).ReplaceAllString(page, "$1")
}

func unindent(text string) string {
	return strings.TrimPrefix(strings.ReplaceAll(text, "\n  ", "\n"), "  ")
}
