package deploy_test

import (
	"os"
	"path/filepath"
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
