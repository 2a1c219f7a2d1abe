package deploy_test

import (
	"go/version"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// stage is a stage of a Dockerfile: where it begins, and its other instructions.
type stage struct {
	name, from   string
	instructions []string
}

// readStages returns the stages of deploy/Dockerfile.
func readStages(t *testing.T) (stages []stage) {
	t.Helper()
	text := regexp.MustCompile(`(?m)^#.*\n`).ReplaceAllString(readFile(t, "Dockerfile"), "")
	for line := range strings.Lines(strings.ReplaceAll(text, "\\\n", " ")) {
		line = strings.TrimSpace(line)
		if m := regexp.MustCompile(`^FROM (\S+) AS (\S+)$`).FindStringSubmatch(line); m != nil {
			stages = append(stages, stage{from: m[1], name: m[2]})
		} else if line != "" {
			require.NotEmpty(t, stages, line)
			last := &stages[len(stages)-1]
			last.instructions = append(last.instructions, line)
		}
	}
	return stages
}

// find returns the groups of the one instruction that matches the pattern.
func (s stage) find(t *testing.T, pattern string) []string {
	t.Helper()
	var found [][]string
	for _, instruction := range s.instructions {
		found = append(found, regexp.MustCompile(pattern).FindAllStringSubmatch(instruction, -1)...)
	}
	require.Len(t, found, 1, "stage %s: instructions like %s", s.name, pattern)
	return found[0][1:]
}

// pinned matches images with a version.
var pinned = regexp.MustCompile(`^[a-z0-9./-]+:([a-z]*[0-9][a-z0-9.-]*|nonroot)$`)

func TestDockerfileNamesWhatExists(t *testing.T) {
	stages := map[string]stage{}
	for _, s := range readStages(t) {
		if _, earlier := stages[s.from]; !earlier {
			assert.Regexp(t, pinned, s.from, s.name)
		}
		stages[s.name] = s
	}
	for _, line := range stages["source"].instructions {
		if sources, isCopy := strings.CutPrefix(line, "COPY "); isCopy {
			fields := strings.Fields(sources)
			for _, source := range fields[:len(fields)-1] {
				require.FileExists(t, filepath.Join("..", source, "go.mod"), line)
			}
		}
	}
	for _, name := range []string{"demo", "tool"} {
		s := stages[name]
		copied := s.find(t, `^COPY --from=(\S+) (\S+) (\S+)$`)
		build := stages[copied[0]].find(t, `^RUN go build -C (\S+) .*-o (\S+) (\S+)$`)
		require.Equal(t, build[1], copied[1], "%s: the program that was built is copied", name)
		require.Equal(t, `["`+copied[2]+`"]`, s.find(t, `^ENTRYPOINT (.*)$`)[0], name)
		main := readFile(t, filepath.Join("..", build[0], build[2], "main.go"))
		require.Contains(t, "\n"+main, "\npackage main\n", name)
		require.Regexp(t, `^[1-9]\d*:[1-9]\d*$`, s.find(t, `^USER (\S+)$`)[0], "%s does not run as root", name)
		s.find(t, `^LABEL .*image\.title="[^"]+".*image\.source="https://github\.com/redlock-go/redlock".*image\.licenses="BSD-3-Clause"`)
	}
	image := strings.TrimPrefix(stages["source"].from, "golang:")
	for _, module := range []string{"go.mod", "../cmd/redlock/go.mod"} {
		needed := regexp.MustCompile(`(?m)^go (\S+)$`).FindStringSubmatch(readFile(t, module))[1]
		release, _, _ := strings.Cut(image, "-")
		require.GreaterOrEqual(t, version.Compare("go"+release, version.Lang("go"+needed)), 0, "%s needs go %s", module, needed)
	}
	require.Equal(t, "tool", readStages(t)[len(stages)-1].name, "the last stage is the one that is built by default")
}
