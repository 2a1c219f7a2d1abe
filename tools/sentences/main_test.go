package main

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// write makes a folder with these pages.
func write(t *testing.T, pages map[string]string) (root string) {
	t.Helper()
	root = t.TempDir()
	for name, text := range pages {
		path := filepath.Join(root, filepath.FromSlash(name))
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	}
	return root
}

func TestTheChangelogAndTheManualAreLeftOut(t *testing.T) {
	root := write(t, map[string]string{
		"README.md": "", "CHANGELOG.md": "", "docs/redlock.1.md": "", "docs/reference/a.md": "", "docs/a.go": "",
		".github/a.md": "", "tools/out/a.md": "", "adapters/one/README.md": "",
	})
	paths, err := pages(root)
	require.NoError(t, err)
	assert.Equal(t, []string{"README.md", "adapters/one/README.md", "docs/reference/a.md"}, paths)
}

func TestLimits(t *testing.T) {
	const short, tooLong = "It is short. ", thirty + " more. "
	paragraph := strings.Repeat("Ten chars ", maxParagraph/10) + ".\n"
	paragraph = strings.ReplaceAll(paragraph, "Ten chars Ten", "Ten chars. Ten")
	for name, test := range map[string]struct {
		pages map[string]string
		want  []string
	}{
		"three of a hundred": {
			map[string]string{"a.md": sections(97, short) + sections(3, tooLong)}, nil,
		},
		"three of 99": {
			map[string]string{"a.md": sections(96, short) + sections(3, tooLong)},
			[]string{"3.03% of all sentences have more than 30 words, the limit is 3%"},
		},
		"six of a hundred on a page": {
			map[string]string{"a.md": sections(94, short) + sections(6, tooLong), "b.md": sections(100, short)}, nil,
		},
		"seven of a hundred on a page": {
			map[string]string{"a.md": sections(93, short) + sections(7, tooLong), "b.md": sections(200, short)},
			[]string{"a.md: 7.0% of the sentences have more than 30 words, the limit of a page is 6%"},
		},
		"a long paragraph": {
			map[string]string{"a.md": paragraph},
			[]string{"paragraphs of more than 720 characters: 1"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			exceeded, err := run(write(t, test.pages), nil, io.Discard)
			require.NoError(t, err)
			assert.Equal(t, test.want, exceeded)
		})
	}
}

// sections returns a page of n paragraphs with this text.
func sections(n int, text string) string { return strings.Repeat(text+"\n\n", n) }

func TestEachPageHasALineAndItsLongSentences(t *testing.T) {
	root := write(t, map[string]string{"a.md": "It is short.\n\n" + thirty + " more.\n", "b.md": "It is short."})
	var out strings.Builder
	_, err := run(root, []string{"-v"}, &out)
	require.NoError(t, err)
	assert.Equal(t, ""+
		"sentences   over 30   share longest paragraphs\n"+
		"        2         1   50.0%      31          0  a.md\n"+
		"a.md:3: 31 words: "+thirty+" more.\n"+
		"        1         0    0.0%       3          0  b.md\n"+
		"        3         1   33.3%      31          0  all pages\n", out.String())

	out.Reset()
	_, err = run(root, []string{"b.md"}, &out)
	require.NoError(t, err)
	assert.NotContains(t, out.String(), "a.md")

	_, err = run(root, []string{"none.md"}, io.Discard)
	assert.Error(t, err)
}
