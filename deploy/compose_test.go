package deploy_test

import (
	"go/version"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/compose-spec/compose-go/v2/cli"
	"github.com/compose-spec/compose-go/v2/types"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// loadProject reads compose.yaml as docker compose does. Unknown keys are errors.
func loadProject(t *testing.T) *types.Project {
	t.Helper()
	options, err := cli.NewProjectOptions([]string{"compose.yaml"})
	require.NoError(t, err)
	project, err := options.LoadProject(t.Context())
	require.NoError(t, err)
	return project
}

func TestComposeHasFiveMastersThatKeepTheirLocks(t *testing.T) {
	project := loadProject(t)
	var urls []string
	volumes := map[string]bool{}
	for name, service := range project.Services {
		if !strings.HasPrefix(name, "master-") {
			continue
		}
		urls = append(urls, "redis://"+name+":6379")
		command := strings.Join(service.Command, " ")
		for _, setting := range []string{"--appendonly yes", "--appendfsync everysec", "--save  ", "--maxmemory-policy noeviction"} {
			assert.Contains(t, command, setting, name)
		}
		require.Len(t, service.Volumes, 1, name)
		volumes[service.Volumes[0].Source] = true
		assert.Equal(t, "/data", service.Volumes[0].Target, name)
		assert.Empty(t, service.Ports, "%s has no password", name)
	}
	require.Len(t, urls, 5)
	require.Len(t, volumes, 5, "each has a volume of its own")
	slices.Sort(urls)
	require.Equal(t, strings.Join(urls, ","), *project.Services["demo"].Environment["REDLOCK_NODES"])
}

func TestComposeNamesFilesAndServicesThatExist(t *testing.T) {
	project := loadProject(t)
	for name, service := range project.Services {
		for _, v := range service.Volumes {
			if v.Type == types.VolumeTypeBind {
				_, err := os.Stat(v.Source)
				assert.NoError(t, err, name)
			}
		}
		for _, port := range service.Ports {
			assert.Equal(t, "127.0.0.1", port.HostIP, "%s is served to this machine only", name)
		}
		if service.Build == nil {
			assert.Regexp(t, pinned, service.Image, name)
			continue
		}
		assert.FileExists(t, filepath.Join(service.Build.Context, service.Build.Dockerfile), name)
		assert.True(t, slices.ContainsFunc(readStages(t), func(s stage) bool { return s.name == service.Build.Target }), name)
	}

	var config struct {
		ScrapeConfigs []struct {
			StaticConfigs []struct{ Targets []string } `yaml:"static_configs"`
		} `yaml:"scrape_configs"`
	}
	readYAML(t, "prometheus/prometheus.yml", &config)
	demo, port, _ := strings.Cut(config.ScrapeConfigs[0].StaticConfigs[0].Targets[0], ":")
	require.Contains(t, project.Services, demo)
	stages := readStages(t)
	exposing := slices.IndexFunc(stages, func(s stage) bool { return s.name == project.Services[demo].Build.Target })
	require.Equal(t, stages[exposing].find(t, `^EXPOSE (\d+)$`)[0], port)
}

// Grafana finds its data source and the dashboard where compose.yaml puts them.
func TestGrafanaIsProvisioned(t *testing.T) {
	project := loadProject(t)
	targets := map[string]string{}
	for _, v := range project.Services["grafana"].Volumes {
		targets[filepath.Base(v.Source)] = v.Target
	}
	require.Equal(t, "/etc/grafana/provisioning", targets["provisioning"])

	var sources struct{ Datasources []struct{ Type, URL string } }
	readYAML(t, "grafana/provisioning/datasources/prometheus.yml", &sources)
	require.Equal(t, "prometheus", sources.Datasources[0].Type)
	host, port, _ := strings.Cut(strings.TrimPrefix(sources.Datasources[0].URL, "http://"), ":")
	require.Equal(t, port, project.Services[host].Ports[0].Published)

	var dashboards struct {
		Providers []struct{ Options struct{ Path string } }
	}
	readYAML(t, "grafana/provisioning/dashboards/redlock.yml", &dashboards)
	require.Equal(t, filepath.Dir(targets["redlock.json"]), dashboards.Providers[0].Options.Path)
	require.Equal(t, targets["redlock.json"], *project.Services["grafana"].Environment["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"])
}

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
