package main

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock/internal/overview"
)

const manualFile = "../../docs/redlock.1"

// manualDate stays the same, so that a page changes only with the help.
var manualDate = time.Date(2026, time.November, 1, 0, 0, 0, 0, time.UTC)

var update = flag.Bool("update", false, "write the manual anew")

func TestManualIsMadeOfTheHelp(t *testing.T) {
	page := manual(t, newRoot())
	if *update {
		require.NoError(t, os.WriteFile(manualFile, []byte(page), 0o644))
	}
	written, err := os.ReadFile(manualFile)
	require.NoError(t, err)
	assert.Equal(t, page, string(written), "%s is stale: go test -run Manual . -update", manualFile)
}

// Where groff, which man calls, and mandoc are installed, they have nothing to say against the page.
func TestManIsContentWithTheManual(t *testing.T) {
	for _, check := range [][]string{{"groff", "-man", "-Kutf8", "-Tutf8", "-ww", "-z", manualFile}, {"mandoc", "-T", "lint", "-W", "warning", manualFile}} {
		if _, err := exec.LookPath(check[0]); err != nil {
			t.Logf("%s is not installed", check[0])
			continue
		}
		complaints, err := exec.Command(check[0], check[1:]...).CombinedOutput()
		assert.NoError(t, err, check[0])
		assert.Empty(t, string(complaints), check[0])
	}
}

func TestTheReferenceHasEachFieldOfTheJSON(t *testing.T) {
	reference, err := os.ReadFile("../../docs/reference/json.md")
	require.NoError(t, err)
	for _, object := range []any{overview.LockJSON{}, overview.Change{}, holding{}} {
		for _, field := range jsonFields(reflect.TypeOf(object)) {
			assert.Contains(t, string(reference), "`"+field+"`")
		}
	}
	for _, field := range jsonFields(reflect.TypeOf(examination{})) {
		assert.Regexp(t, `\b`+field+`\b`, doctorHelp)
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
		if name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ","); strings.Trim(name, "-") != "" {
			names = append(append(names, name), jsonFields(t.Field(i).Type)...)
		}
	}
	return names
}

// manual returns one man page of cobra's pages: the root's, then each command's as a section.
func manual(t *testing.T, root *cobra.Command) string {
	root.Long += "\n\n# COMMANDS\n"
	for _, c := range described(root) {
		root.Long += fmt.Sprintf("**redlock %s**\n: %s\n\n", c.Use, c.Short)
	}
	root.Long += "# EXIT STATUS\n"
	for _, line := range exitTable {
		root.Long += fmt.Sprintf("**%s**\n: %s\n\n", line.code, line.meaning)
	}
	page := manPage(t, root)
	for _, c := range described(root) {
		_, text, _ := strings.Cut(manPage(t, c), ".SH SYNOPSIS\n")
		page += ".SH REDLOCK " + strings.ToUpper(c.Name()) + "\n" + strings.ReplaceAll(text, "\n.SH ", "\n.SS ")
	}
	return page
}

// manPage returns cobra's page of a command, without the sections that repeat others.
func manPage(t *testing.T, c *cobra.Command) string {
	c.DisableAutoGenTag = true
	var page bytes.Buffer
	require.NoError(t, doc.GenMan(c, &doc.GenManHeader{Title: "REDLOCK", Date: &manualDate, Source: "redlock"}, &page))
	return regexp.MustCompile(`(?s)\.SH (OPTIONS INHERITED|SEE ALSO).*?(\.SH EXAMPLE|\z)`).ReplaceAllString(page.String(), "$2")
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
