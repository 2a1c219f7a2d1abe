package main

import (
	"flag"
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// manual is the page that is made of the commands' own help.
const manual = "../../docs/redlock.1.md"

var update = flag.Bool("update", false, "write "+manual+" anew")

func TestManualIsMadeOfTheHelp(t *testing.T) {
	page := writeManual(newRoot())
	if *update {
		require.NoError(t, os.WriteFile(manual, []byte(page), 0o644))
	}
	written, err := os.ReadFile(manual)
	require.NoError(t, err)
	assert.Equal(t, page, string(written), "the manual is stale: go test -run Manual . -update")
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

func writeManual(root *cobra.Command) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# redlock(1)\n\n<!-- Made of the help texts by cmd/redlock/manual_test.go: go test -run Manual . -update -->\n\n")
	fmt.Fprintf(&b, "## NAME\n\nredlock - %s\n\n", strings.ToLower(root.Short[:1])+root.Short[1:])
	fmt.Fprintf(&b, "## SYNOPSIS\n\n```\n")
	for _, c := range root.Commands() {
		if c.Name() != "help" && c.Name() != "completion" {
			fmt.Fprintf(&b, "redlock %s\n", c.Use)
		}
	}
	fmt.Fprintf(&b, "redlock completion bash|zsh|fish|powershell\n```\n\n## DESCRIPTION\n\n%s\n\n", prose(root.Long))
	for _, c := range root.Commands() {
		if c.Name() == "help" || c.Name() == "completion" {
			continue
		}
		fmt.Fprintf(&b, "## %s\n\n%s\n\n", strings.ToUpper("redlock "+c.Name()), prose(c.Long))
		if flags := c.NonInheritedFlags().FlagUsages(); flags != "" {
			fmt.Fprintf(&b, "```\n%s```\n\n", flags)
		}
		fmt.Fprintf(&b, "For example:\n\n```sh\n%s\n```\n\n", unindent(c.Example))
	}
	fmt.Fprintf(&b, "## FLAGS OF ALL COMMANDS\n\n```\n%s```\n\n", root.PersistentFlags().FlagUsages())
	fmt.Fprintf(&b, "## EXIT STATUS\n\n| code | meaning |\n| --- | --- |\n")
	for _, line := range exitTable {
		fmt.Fprintf(&b, "| %s | %s |\n", line.code, line.meaning)
	}
	fmt.Fprintf(&b, `
A command's own exit code may be one of these too. Messages of redlock itself, on stderr,
begin with %[1]sredlock:%[1]s.

## ENVIRONMENT

| variable | |
| --- | --- |
| %[1]sREDLOCK_NODES%[1]s | the nodes, where %[1]s--nodes%[1]s is not given. Commands under %[1]sredlock run%[1]s inherit it, passwords included |
| %[1]sREDLOCK_NAME%[1]s, %[1]sREDLOCK_NAMES%[1]s, %[1]sREDLOCK_OWNER%[1]s, %[1]sREDLOCK_TOKEN%[1]s, %[1]sREDLOCK_SLOTS%[1]s | set for the command of %[1]sredlock run%[1]s and %[1]sredlock resume%[1]s; %[1]sREDLOCK_SLOTS%[1]s is empty without %[1]s--permits%[1]s |
| %[1]sNO_COLOR%[1]s | if it is not empty, nothing is coloured. Without a terminal nothing is anyway |

## SHELL COMPLETION

%[1]ssource <(redlock completion bash)%[1]s, or %[1]sredlock completion --help%[1]s for other shells.

## EXAMPLES

%[1]s%[1]s%[1]ssh
%[2]s
%[1]s%[1]s%[1]s

## SEE ALSO

[The README](../README.md), [safety](safety.md), [the algorithm](algorithm.md),
[the protocol](protocol.md).
`, "`", unindent(root.Example))
	return b.String()
}

// prose escapes angle brackets and stars for Markdown.
func prose(text string) string { return strings.NewReplacer("<", "&lt;", "*", `\*`).Replace(text) }

func unindent(text string) string {
	return strings.TrimPrefix(strings.ReplaceAll(text, "\n  ", "\n"), "  ")
}
