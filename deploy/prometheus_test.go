package deploy_test

import (
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock/integration/cluster"
)

// await bounds what a test waits for: it only bounds a broken machine.
const await = time.Minute

// prometheusProcess is a Prometheus that scrapes one target and evaluates the rules, each second.
type prometheusProcess struct{ url string }

// startPrometheus runs the program until the test ends, with the configuration of compose.yaml and these changes: the
// target, an interval of a second, and two seconds in place of the rules' own "for".
func startPrometheus(t *testing.T, program, target string) prometheusProcess {
	dir := t.TempDir()
	rewrite(t, "prometheus/prometheus.yml", dir, `demo:9464`, target, `_interval: \w+`, "_interval: 1s")
	rewrite(t, "prometheus/rules.yml", dir, `(?m)^( +for): \w+$`, "$1: 2s")
	port, err := cluster.FreePort()
	require.NoError(t, err)
	log, err := os.Create(filepath.Join(dir, "log"))
	require.NoError(t, err)
	defer log.Close()
	address := fmt.Sprint("127.0.0.1:", port)
	cmd := exec.Command(program, "--config.file="+filepath.Join(dir, "prometheus.yml"),
		"--storage.tsdb.path="+filepath.Join(dir, "data"), "--web.listen-address="+address)
	cmd.Stdout, cmd.Stderr = log, log
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		end(cmd)
		if t.Failed() {
			text, err := os.ReadFile(log.Name())
			t.Logf("the log of Prometheus (%v):\n%s", err, text)
		}
	})
	p := prometheusProcess{"http://" + address}
	require.Eventually(t, func() bool { return p.get("/-/ready", nil) == nil }, await, 50*time.Millisecond)
	return p
}

// rewrite writes a file into dir, with all matches of patterns replaced by the text behind each. Each pattern must match.
func rewrite(t *testing.T, file, dir string, replacements ...string) {
	t.Helper()
	text := readFile(t, file)
	for i := 0; i < len(replacements); i += 2 {
		pattern := regexp.MustCompile(replacements[i])
		require.Regexp(t, pattern, text)
		text = pattern.ReplaceAllString(text, replacements[i+1])
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, filepath.Base(file)), []byte(text), 0o600))
}

// end ends a process, and waits for that. A process that does not heed SIGTERM is killed.
func end(cmd *exec.Cmd) {
	_ = cmd.Process.Signal(syscall.SIGTERM)
	kill := time.AfterFunc(10*time.Second, func() { _ = cmd.Process.Kill() })
	defer kill.Stop()
	_ = cmd.Wait()
}

// get reads an answer into result, unless that is nil.
func (p prometheusProcess) get(path string, result any) error {
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 10 * time.Second}
	response, err := client.Get(p.url + path)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", path, response.Status)
	}
	if result == nil {
		return nil
	}
	return json.NewDecoder(response.Body).Decode(result)
}

// series is one series of a query's result: instant queries have a value, those of ranges values.
type series struct {
	Metric map[string]string
	Value  point
	Values []point
}

// point is a time in seconds and a number in a text, as Prometheus writes it.
type point [2]any

func (p point) time() time.Time {
	seconds, _ := p[0].(float64)
	return time.UnixMilli(int64(seconds * 1000))
}

// hasNumber reports whether the point is a number: a quantile of nothing is none.
func (p point) hasNumber() bool {
	text, _ := p[1].(string)
	number, err := strconv.ParseFloat(text, 64)
	return err == nil && !math.IsNaN(number)
}

// query evaluates an expression now.
func (p prometheusProcess) query(expr string) ([]series, error) {
	var answer struct{ Data struct{ Result []series } }
	err := p.get("/api/v1/query?query="+url.QueryEscape(expr), &answer)
	return answer.Data.Result, err
}

// firing returns the names of the alerts that fire now, without repetition.
func (p prometheusProcess) firing() (map[string]bool, error) {
	names := map[string]bool{}
	found, err := p.query(`ALERTS{alertstate="firing"}`)
	for _, s := range found {
		names[s.Metric["alertname"]] = true
	}
	return names, err
}

// firstFired returns when each alert fired first.
func (p prometheusProcess) firstFired() (map[string]time.Time, error) {
	first := map[string]time.Time{}
	found, err := p.query(`ALERTS{alertstate="firing"}[1h]`)
	for _, s := range found {
		name, at := s.Metric["alertname"], s.Values[0].time()
		if earlier, known := first[name]; !known || at.Before(earlier) {
			first[name] = at
		}
	}
	return first, err
}

// inGrafana puts into an expression of the dashboard what Grafana puts there: all jobs, all instances, some scrapes.
var inGrafana = strings.NewReplacer("$job", ".+", "$instance", ".+", "$__rate_interval", "15s")
