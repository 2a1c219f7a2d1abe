package docs_test

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// maxDocWords is how many words go doc -all prints of the package, declarations included. What argues or
// explains more stands in the pages of docs/.
const maxDocWords = 6100

func TestDocCommentsAreShort(t *testing.T) {
	command := exec.CommandContext(t.Context(), "go", "doc", "-all", ".")
	command.Dir = ".."
	text, err := command.Output()
	require.NoError(t, err)
	words := len(strings.Fields(string(text)))
	assert.Greater(t, words, maxDocWords/2, "this counts nothing")
	assert.LessOrEqual(t, words, maxDocWords, "shorten comments of exported names, or move text to docs/")
}
