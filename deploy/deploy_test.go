// Package deploy_test checks the rules and the dashboard against a client's metrics.
package deploy_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	exporter "go.opentelemetry.io/otel/exporters/prometheus"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"gopkg.in/yaml.v3"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/test/testclient"
	"github.com/redlock-go/redlock/redlockotel"
	"github.com/redlock-go/redlock/redlocktest"
)

// scrape makes every kind of call that a rule or a panel speaks of, and returns what Prometheus then reads.
func scrape(t *testing.T) []*dto.MetricFamily {
	registry := prometheus.NewRegistry()
	reader, err := exporter.New(exporter.WithRegisterer(registry))
	require.NoError(t, err)
	telemetry, err := redlockotel.New(redlockotel.WithMeterProvider(sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader))))
	require.NoError(t, err)
	nodes := redlocktest.Start(t, 5)
	client := testclient.Open(t, nodes.URLs(), redlock.WithTrace(telemetry.Trace()))
	registration, err := telemetry.Observe(client)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, registration.Unregister()) })

	held := nodes.Hold(t, "name", "another")
	released := time.AfterFunc(200*time.Millisecond, func() { _ = held.Unlock(t.Context()) })
	defer released.Stop()
	lease, err := client.Mutex("name").Lock(t.Context()) // it waits
	require.NoError(t, err)
	require.NoError(t, lease.Extend(t.Context()))
	nodes.Lose(t, "name")
	require.Eventually(t, func() bool { return errors.Is(lease.Extend(t.Context()), redlock.ErrLost) }, 10*time.Second, 10*time.Millisecond)
	require.NoError(t, client.Close())

	families, err := registry.Gather()
	require.NoError(t, err)
	return families
}

// labelsOfEach returns the labels of each metric.
func labelsOfEach(families []*dto.MetricFamily) map[string][]string {
	metrics := map[string][]string{}
	for _, f := range families {
		labels := []string{"job", "instance"} // Prometheus adds them
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				labels = append(labels, l.GetName())
			}
		}
		metrics[f.GetName()] = labels
		metrics[f.GetName()+"_bucket"] = append(labels, "le")
	}
	return metrics
}

// boundsOf returns the upper bounds of a histogram's buckets.
func boundsOf(families []*dto.MetricFamily, name string) (bounds []float64) {
	for _, f := range families {
		if f.GetName() == name {
			for _, b := range f.GetMetric()[0].GetHistogram().GetBucket() {
				bounds = append(bounds, b.GetUpperBound())
			}
		}
	}
	return bounds
}

var (
	selector = regexp.MustCompile(`(redlock_\w+)(?:\{([^}]*)\})?`)
	matcher  = regexp.MustCompile(`(\w+)\s*(?:=~|!=|!~|=)`)
	grouping = regexp.MustCompile(`(?:by|on)\s*\(([^)]*)\)`)
	word     = regexp.MustCompile(`\w+`)
)

// requireKnown expects each metric of an expression to exist, with the labels by which it is chosen and grouped.
func requireKnown(t *testing.T, metrics map[string][]string, expr string) {
	t.Helper()
	var all []string
	isLabel := labelsOf(metrics)
	found := selector.FindAllStringSubmatch(expr, -1)
	require.NotEmpty(t, found, expr)
	for _, m := range found {
		name := m[1]
		if isLabel[name] {
			continue
		}
		labels, known := metrics[name]
		require.True(t, known, "no metric %s: %s", name, expr)
		all = append(all, labels...)
		for _, l := range matcher.FindAllStringSubmatch(m[2], -1) {
			require.Contains(t, labels, l[1], "%s: %s", name, expr)
		}
	}
	for _, g := range grouping.FindAllStringSubmatch(expr, -1) {
		for _, l := range word.FindAllString(g[1], -1) {
			require.Contains(t, all, l, expr)
		}
	}
}

// labelsOf returns the labels of all metrics.
func labelsOf(metrics map[string][]string) map[string]bool {
	all := map[string]bool{}
	for _, labels := range metrics {
		for _, l := range labels {
			all[l] = true
		}
	}
	return all
}

func readFile(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	require.NoError(t, err)
	return string(text)
}

func readYAML(t *testing.T, file string, into any) {
	t.Helper()
	require.NoError(t, yaml.Unmarshal([]byte(readFile(t, file)), into), file)
}

// rule is an alert of prometheus/rules.yml.
type rule struct {
	Alert, Expr string
	Annotations map[string]string
}

func readRules(t *testing.T) []rule {
	t.Helper()
	var rules struct{ Groups []struct{ Rules []rule } }
	readYAML(t, "prometheus/rules.yml", &rules)
	require.Len(t, rules.Groups, 1)
	return rules.Groups[0].Rules
}

// board is what the tests read of grafana/redlock.json.
type board struct {
	Panels []struct {
		ID      int
		Title   string
		Targets []struct{ Expr string }
	}
}

func readBoard(t *testing.T) (b board) {
	t.Helper()
	require.NoError(t, json.Unmarshal([]byte(readFile(t, "grafana/redlock.json")), &b))
	return b
}

func TestRulesAndDashboardNameMetricsThatExist(t *testing.T) {
	families := scrape(t)
	metrics := labelsOfEach(families)
	var alerts []string
	for _, r := range readRules(t) {
		requireKnown(t, metrics, r.Expr)
		alerts = append(alerts, r.Alert)
		assert.Regexp(t, `/docs/operations\.md#[a-z-]+$`, r.Annotations["runbook_url"], r.Alert)
	}
	require.Len(t, alerts, 6)
	// A quantile lies anywhere between two bounds: without one at 30 s, shorter waits make RedlockLongWaits fire.
	require.Contains(t, boundsOf(families, "redlock_wait_duration_seconds"), 30.0)

	var ids []int
	for _, p := range readBoard(t).Panels {
		ids = append(ids, p.ID)
		require.NotEmpty(t, p.Targets, p.Title)
		for _, target := range p.Targets {
			requireKnown(t, metrics, target.Expr)
		}
	}
	slices.Sort(ids)
	panels := len(ids)
	require.Len(t, slices.Compact(ids), panels, "panels have ids of their own")
	require.Greater(t, panels, 10)
}

// promtool returns a command of promtool.
func promtool(t *testing.T, args ...string) *exec.Cmd {
	path, err := exec.LookPath("promtool")
	if err != nil {
		t.Skip("promtool is not installed (Debian: apt-get install prometheus)")
	}
	return exec.Command(path, args...)
}

func TestPromtoolIsContentWithTheMetrics(t *testing.T) {
	cmd := promtool(t, "check", "metrics")
	var text bytes.Buffer
	encoder := expfmt.NewEncoder(&text, expfmt.NewFormat(expfmt.TypeTextPlain))
	for _, f := range scrape(t) {
		if strings.HasPrefix(f.GetName(), "redlock_") {
			require.NoError(t, encoder.Encode(f))
		}
	}
	require.Greater(t, text.Len(), 10_000)
	cmd.Stdin = &text
	output, err := cmd.CombinedOutput()
	require.NoError(t, err, string(output))
	require.Empty(t, string(output))
}

// The alerts about servers that the page names are expressions, and none of them is written without a metric.
func TestAlertsOfTheServersAreExpressions(t *testing.T) {
	page := readFile(t, "../docs/operations.md")
	_, table, found := strings.Cut(page, "**Alerts about the masters themselves**")
	require.True(t, found)
	table, _, _ = strings.Cut(table, "**Hooks**")
	var rules strings.Builder
	rules.WriteString("groups:\n  - name: servers\n    rules:\n")
	expressions := regexp.MustCompile("`([^`]*\\b(?:redis|node)_\\w+[^`]*)`").FindAllStringSubmatch(table, -1)
	require.Greater(t, len(expressions), 10)
	for i, m := range expressions {
		fmt.Fprintf(&rules, "      - { alert: A%d, expr: %q }\n", i, m[1])
	}
	file := filepath.Join(t.TempDir(), "rules.yml")
	require.NoError(t, os.WriteFile(file, []byte(rules.String()), 0o600))
	output, err := promtool(t, "check", "rules", file).CombinedOutput()
	require.NoError(t, err, string(output))
}

// promtool evaluates each rule over series in which its fault is planted.
func TestEachRuleFiresForItsFaultAlone(t *testing.T) {
	for _, args := range [][]string{{"check", "rules", "rules.yml"}, {"test", "rules", "rules.test.yml"}} {
		cmd := promtool(t, args...)
		cmd.Dir = "prometheus"
		output, err := cmd.CombinedOutput()
		require.NoError(t, err, string(output))
	}
}
