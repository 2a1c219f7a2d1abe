package redlockweb_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/test/testclient"
	"github.com/redlock-go/redlock/redlocktest"
	"github.com/redlock-go/redlock/redlockweb"
)

// maxPage bounds the page's own parts, in bytes: style, script and templates.
const maxPage = 40_000

func TestThePageIsSmall(t *testing.T) {
	server, all := serve(t, redlocktest.Start(t, 1)), 0
	for _, path := range []string{"/", "/style.css", "/script.js"} {
		all += len(get(t, server, path).body)
	}
	assert.Less(t, all, maxPage, "what a browser loads")
	all = 0
	for _, file := range []string{"page.html", "lock.html", "style.css", "script.js"} {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		all += len(text)
	}
	assert.Less(t, all, maxPage, "what is embedded")
}

func TestThePolicyLetsNothingInlineRun(t *testing.T) {
	nodes := redlocktest.Start(t, 1)
	hold(t, nodes, "job", "web-1")
	server := serve(t, nodes, redlockweb.WithUnlock())
	for _, path := range paths {
		if path == "/events" {
			continue
		}
		got := get(t, server, path)
		assert.Equal(t, "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'",
			got.header.Get("Content-Security-Policy"), path)
		assert.Equal(t, "nosniff", got.header.Get("X-Content-Type-Options"), path)
		assert.NotRegexp(t, `<style|\sstyle=|\son\w+=|<script>|javascript:`, got.body, path)
	}
}

// hostile are names and labels that would harm a page that showed them raw.
var hostile = []string{"<script>alert(1)</script>", `"><img src=x onerror="alert(1)">`, "a\nb", "\x1b[2Jgone", "\u202eneddih", "</table><h1>", "{{.}}", "\xff\xfe"}

// printed drops what no label may have.
func printed(r rune) rune {
	if r == utf8.RuneError || !strconv.IsPrint(r) {
		return -1
	}
	return r
}

func TestHostileNamesAndLabelsAreText(t *testing.T) {
	nodes := redlocktest.Start(t, 1)
	for i, text := range hostile {
		hold(t, nodes, text, "web")
		hold(t, nodes, "labelled-"+strconv.Itoa(i), strings.Map(printed, text)+"-")
	}
	server := serve(t, nodes, redlockweb.WithTitle("<title>"), redlockweb.WithUnlock())
	for i := range hostile { // and in the links
		paths := []string{"/", "/lock?name=" + url.QueryEscape(hostile[i]), "/lock?name=labelled-" + strconv.Itoa(i)}
		for _, path := range paths {
			body := get(t, server, path).body
			assert.NotRegexp(t, "<script>|<img|</table><h1>|<title><title>|[\x1b\u202e\ufffd]|\\{\\{", strings.ReplaceAll(body, "{{.}}", ""), path)
		}
		filtered := get(t, server, "/?filter="+url.QueryEscape(hostile[i])).body // the person's own text stands in the field
		assert.NotRegexp(t, "<script>|<img|</table><h1>", filtered)
		assert.Contains(t, get(t, server, paths[1]).body, `<p class="sentence ok">held</p>`, "its link finds it: %q", hostile[i])
	}
	body := get(t, server, "/").body
	for _, shown := range []string{"&lt;script&gt;alert(1)&lt;/script&gt;", `&#34;a\nb&#34;`, `&#34;\x1b[2Jgone&#34;`, `&#34;\u202eneddih&#34;`, "&#34;\\xff\\xfe&#34;"} {
		assert.Contains(t, body, shown)
	}
}

func TestAtMostTwoHundredRowsAreDrawn(t *testing.T) {
	nodes := redlocktest.Start(t, 1)
	client := testclient.Open(t, nodes.URLs(), redlock.WithTTL(time.Hour)) // renewals would take the machine's time
	var leases []*redlock.Lease
	for i := range 230 {
		lease, err := client.Mutex("lock-" + strconv.Itoa(1000+i)).Lock(t.Context())
		require.NoError(t, err)
		leases = append(leases, lease)
	}
	defer func() { runtime.KeepAlive(leases) }()
	server := serve(t, nodes)
	body := ""
	await := func(path, text string) {
		t.Helper()
		require.Eventually(t, func() bool {
			body = get(t, server, path).body
			return strings.Contains(body, text)
		}, 10*soon, 500*time.Millisecond) // a listing rests for three times as long as the last one took, which is seconds here
	}
	await("/", "The first 200 of 230 rows are shown")
	assert.Equal(t, 200, strings.Count(body, "<tr role=\"row\" data-key"))
	await("/?filter=LOCK-122", "10 rows match")
	assert.Equal(t, 10, strings.Count(body, "<tr role=\"row\" data-key"))
	conn, err := redis.DialURL(nodes.URLs()[0])
	require.NoError(t, err)
	defer conn.Close()
	for i := range 40 { // without an end: rows to look at, which count too
		_, err := conn.Do("SET", "redlock:endless-"+strconv.Itoa(i), "theirs")
		require.NoError(t, err)
	}
	// A page that is loaded again and again shows the next listing, though each time it is looked at too briefly for one.
	await("/", "40 locks · 25 shown")
	assert.Equal(t, 200, strings.Count(body, "<tr role=\"row\" data-key"))
	assert.Contains(t, body, "The first 175 of 270 rows are shown")
	assert.Contains(t, get(t, server, "/?filter=none").body, "No lock matches.")
	var v struct{ Rows []struct{ Name string } }
	require.NoError(t, json.Unmarshal([]byte(get(t, server, "/api/locks?sort=name").body), &v))
	assert.Len(t, v.Rows, 270, "programs get all")
	assert.Equal(t, "lock-1000", v.Rows[40].Name)
}

func TestHealthNodesAndMetrics(t *testing.T) {
	nodes := redlocktest.Start(t, 3)
	hold(t, nodes, "job", "web-1")
	server := serve(t, nodes)
	require.Equal(t, answer{http.StatusOK, nil, "ok\n"}, withoutHeader(get(t, server, "/healthz")))
	metrics := get(t, server, "/metrics").body
	for _, line := range []string{"redlock_cluster_locks 1", "redlock_cluster_callers_waiting 0", "redlock_cluster_longest_wait_seconds 0",
		"redlock_cluster_endless_locks 0", "redlock_cluster_masters_up 3"} {
		assert.Contains(t, metrics, "\n"+line+"\n")
	}
	nodes.Stop(0)
	nodes.Stop(1)
	require.Eventually(t, func() bool { return get(t, server, "/healthz").code == http.StatusServiceUnavailable }, soon, 100*time.Millisecond)
	assert.Contains(t, get(t, server, "/healthz").body, "no quorum: 1 of 3 nodes granted, 2 needed; node 0 (")
	require.Eventually(t, func() bool { return strings.Contains(get(t, server, "/metrics").body, "masters_up 1\n") }, soon, 100*time.Millisecond)
	assert.NotContains(t, get(t, server, "/metrics").body, "redlock_cluster_locks", "without a quorum it is not known")
	var v struct {
		Available bool
		Nodes     []struct{ Node, State, Cause, Remedy, Runbook string }
	}
	require.NoError(t, json.Unmarshal([]byte(get(t, server, "/api/nodes").body), &v))
	assert.False(t, v.Available)
	assert.Equal(t, "down", v.Nodes[0].State)
	assert.Contains(t, v.Nodes[0].Runbook, "docs/operations.md#a-majority-is-down")
}

func withoutHeader(a answer) answer {
	a.header = nil
	return a
}

func TestPromtoolAcceptsTheMetrics(t *testing.T) {
	path, err := exec.LookPath("promtool")
	if err != nil {
		t.Skip("promtool is not installed (Debian: apt-get install prometheus)")
	}
	cmd := exec.Command(path, "check", "metrics")
	cmd.Stdin = strings.NewReader(get(t, serve(t, redlocktest.Start(t, 1)), "/metrics").body)
	complaints, err := cmd.CombinedOutput()
	require.NoError(t, err, string(complaints))
	require.Empty(t, string(complaints))
}

// update is an event of a stream.
type update struct {
	Parts map[string]string
	Lists map[string]struct {
		Order []string
		Rows  map[string]string
	}
}

func TestEventsBringWhatHasChanged(t *testing.T) {
	nodes := redlocktest.Start(t, 1)
	hold(t, nodes, "alpha", "web-1", redlock.WithTTL(time.Hour))
	page := redlockweb.New(testclient.Open(t, nodes.URLs()))
	server := serveHandler(t, page)
	got, err := http.Get(server.URL + "/events")
	require.NoError(t, err)
	defer got.Body.Close()
	lines := bufio.NewScanner(got.Body)
	lines.Buffer(nil, 1<<20)
	next := func() (u update) {
		for lines.Scan() {
			if data, is := strings.CutPrefix(lines.Text(), "data: "); is {
				require.NoError(t, json.Unmarshal([]byte(data), &u))
				return u
			}
		}
		require.FailNow(t, "the stream has ended", fmt.Sprint(lines.Err()))
		return u
	}
	first := next()
	for _, part := range []string{"sentence", "masters", "stale", "waiting-head", "odd-head", "all-head", "shown"} {
		require.Contains(t, first.Parts, part, "a page that is older has another text, perhaps")
	}
	for len(first.Lists["rows"].Rows) == 0 {
		first = next()
	}
	require.Len(t, first.Lists["rows"].Order, 1)
	hold(t, nodes, "beta", "web-2", redlock.WithTTL(time.Hour))
	second := next()
	for len(second.Lists["rows"].Order) < 2 {
		second = next()
	}
	require.Equal(t, first.Lists["rows"].Order[0], second.Lists["rows"].Order[0])
	require.Len(t, second.Lists["rows"].Rows, 1, "alpha has not changed")
	require.NotContains(t, second.Parts, "sentence", "nor has that")
	require.Contains(t, second.Parts["all-head"], "2 locks")

	conn, err := redis.DialURL(nodes.URLs()[0])
	require.NoError(t, err)
	defer conn.Close()
	_, err = conn.Do("SET", "redlock:alpha", "theirs", "PX", time.Hour.Milliseconds())
	require.NoError(t, err)
	third := next()
	for len(third.Lists["rows"].Rows) == 0 {
		third = next()
	}
	require.Contains(t, third.Lists["rows"].Rows[first.Lists["rows"].Order[0]], "theirs")
	require.Nil(t, third.Lists["rows"].Order, "it is as before")

	require.NoError(t, page.Close()) // it ends the stream
	for lines.Scan() {
	}
	require.Equal(t, http.StatusServiceUnavailable, get(t, server, "/").code)
	require.NoError(t, page.Close())
}
