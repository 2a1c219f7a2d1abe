package redlockweb_test

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/test/testclient"
	"github.com/redlock-go/redlock/redlocktest"
	"github.com/redlock-go/redlock/redlockweb"
)

var paths = []string{"/", "/lock?name=job", "/unlock?name=job", "/events", "/api/locks", "/api/nodes", "/healthz", "/metrics", "/style.css", "/script.js", "/none"}

func TestAReadOnlyPageRefusesAllButGetAndHead(t *testing.T) {
	nodes := redlocktest.Start(t, 1)
	lease := hold(t, nodes, "job", "web-1")
	server := serve(t, nodes)
	for _, path := range paths {
		for _, method := range []string{"POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECTED"} {
			got := ask(t, server, method, path, "", nil)
			assert.Equal(t, http.StatusForbidden, got.code, "%s %s", method, path)
			assert.Equal(t, "this page is read-only\n", got.body, "%s %s", method, path)
		}
		if path != "/events" && path != "/none" && path != "/unlock?name=job" {
			assert.Equal(t, http.StatusOK, get(t, server, path).code, path)
		}
		head := ask(t, server, http.MethodHead, path, "", nil)
		assert.NotEqual(t, http.StatusForbidden, head.code, path)
		assert.Empty(t, head.body, path)
	}
	assert.NotContains(t, get(t, server, "/lock?name=job").body, "<form")
	require.True(t, lease.Valid())
}

func TestARequestByAnotherHostIsRefused(t *testing.T) {
	nodes := redlocktest.Start(t, 1)
	server := serve(t, nodes, redlockweb.WithHosts("locks.example.com", "other.example.com:444"), redlockweb.WithUnlock())
	port := server.URL[strings.LastIndexByte(server.URL, ':'):]
	code := func(host, method, path string) int {
		return ask(t, server, method, path, "", func(r *http.Request) {
			r.Host = host
			r.Header.Set("Origin", "http://"+host) // as a name has it that was bound to this machine
		}).code
	}
	for _, host := range []string{"evil.example.com", "evil.example.com" + port, "localhost.evil.example.com", "127.0.0.1.evil.example.com",
		"locks.example.com.evil.example.com", "8.8.8.8", "[2001:db8::1]", "other.example.com", "other.example.com:80", "localhost.", "127.0.0.1:1:1"} {
		for _, path := range paths {
			method := http.MethodGet
			if path == "/events" {
				method = http.MethodHead // a stream that is not refused has no end
			}
			assert.Equal(t, http.StatusForbidden, code(host, method, path), "%s %s", host, path)
		}
		assert.Equal(t, http.StatusForbidden, code(host, http.MethodPost, "/unlock?name=job"), host)
	}
	for _, host := range []string{"localhost", "LOCALHOST" + port, "127.0.0.1" + port, "[::1]" + port, "locks.example.com", "Locks.Example.com:8443", "other.example.com:444"} {
		assert.Equal(t, http.StatusOK, code(host, http.MethodGet, "/style.css"), host)
	}
}

// An address at which a request arrives is no name that a foreign site can bind.
func TestTheAddressAtWhichARequestArrivesIsAHost(t *testing.T) {
	page := redlockweb.New(testclient.Open(t, redlocktest.Start(t, 1).URLs()))
	defer page.Close()
	arrive := func(host, at string) int {
		r := httptest.NewRequest(http.MethodGet, "/style.css", nil)
		r.Host = host
		local, err := net.ResolveTCPAddr("tcp", at)
		require.NoError(t, err)
		w := httptest.NewRecorder()
		(&withLocal{page, local}).ServeHTTP(w, r)
		return w.Code
	}
	assert.Equal(t, http.StatusOK, arrive("10.0.0.9:80", "10.0.0.9:80"))
	assert.Equal(t, http.StatusOK, arrive("[fe80::1]:80", "[fe80::1%1]:80"))
	assert.Equal(t, http.StatusForbidden, arrive("10.0.0.8:80", "10.0.0.9:80"))
}

// Each of these alone makes a request that the page refuses; without any of them it unlocks.
func TestEachGuardOfUnlockAloneRefuses(t *testing.T) {
	nodes := redlocktest.Start(t, 1)
	lease := hold(t, nodes, "job", "web-1")
	hold(t, nodes, "other", "web-1")
	server := serve(t, nodes, redlockweb.WithUnlock())
	token := tokenOf(t, server, "job")
	form := func(token, typed string) string {
		return url.Values{"token": {token}, "typed": {typed}, "owner": {lease.Owner()}}.Encode()
	}
	set := func(name, value string) func(*http.Request) {
		return func(r *http.Request) { r.Header.Set(name, value) }
	}
	good := form(token, "job")
	for name, try := range map[string]struct {
		method, path, body string
		change             func(*http.Request)
		code               int
		why                string
	}{
		"another site": {"POST", "/unlock?name=job", good, set("Sec-Fetch-Site", "cross-site"), http.StatusForbidden, "another site"},
		"another port": {"POST", "/unlock?name=job", good, set("Sec-Fetch-Site", "same-site"), http.StatusForbidden, "another site"},
		"another origin": {"POST", "/unlock?name=job", good, func(r *http.Request) {
			r.Header.Del("Sec-Fetch-Site")
			r.Header.Set("Origin", "http://evil.example.com")
		}, http.StatusForbidden, "another site"},
		"an origin without a name": {"POST", "/unlock?name=job", good, func(r *http.Request) {
			r.Header.Del("Sec-Fetch-Site")
			r.Header.Set("Origin", "null")
		}, http.StatusForbidden, "another site"},
		"no origin": {"POST", "/unlock?name=job", good, func(r *http.Request) {
			r.Header.Del("Sec-Fetch-Site")
			r.Header.Del("Origin")
		}, http.StatusForbidden, "from which page"},
		"another Host": {"POST", "/unlock?name=job", good, func(r *http.Request) {
			r.Host = "evil.example.com"
			r.Header.Set("Origin", "http://evil.example.com")
		}, http.StatusForbidden, "Host"},
		"no token":            {"POST", "/unlock?name=job", form("", "job"), nil, http.StatusForbidden, "not of this page"},
		"another token":       {"POST", "/unlock?name=job", form(strings.ToLower(token), "job"), nil, http.StatusForbidden, "not of this page"},
		"a token in the URL":  {"POST", "/unlock?name=job&token=" + token, "typed=job", nil, http.StatusForbidden, "not of this page"},
		"another name":        {"POST", "/unlock?name=job", form(token, "other"), nil, http.StatusForbidden, "nothing was changed"},
		"a part of the name":  {"POST", "/unlock?name=job", form(token, "jo"), nil, http.StatusForbidden, "nothing was changed"},
		"nothing typed":       {"POST", "/unlock?name=job", form(token, ""), nil, http.StatusForbidden, "nothing was changed"},
		"no name":             {"POST", "/unlock", form(token, ""), nil, http.StatusForbidden, "nothing was changed"},
		"typed in the URL":    {"POST", "/unlock?name=job&typed=job", "token=" + token, nil, http.StatusForbidden, "nothing was changed"},
		"a GET":               {"GET", "/unlock?name=job&" + good, "", nil, http.StatusMethodNotAllowed, "form"},
		"a PUT":               {"PUT", "/unlock?name=job", good, nil, http.StatusForbidden, "read-only"},
		"a DELETE":            {"DELETE", "/unlock?name=job", good, nil, http.StatusForbidden, "read-only"},
		"a POST of the page":  {"POST", "/", good, nil, http.StatusForbidden, "read-only"},
		"a form of any size":  {"POST", "/unlock?name=job", good + "&more=" + strings.Repeat("x", 1<<17), nil, http.StatusForbidden, "not of this page"},
		"a POST elsewhere":    {"POST", "/unlock/?name=job", good, nil, http.StatusForbidden, "read-only"},
		"a POST of its frame": {"POST", "/lock?name=job", good, nil, http.StatusForbidden, "read-only"},
	} {
		got := ask(t, server, try.method, try.path, try.body, try.change)
		assert.Equal(t, try.code, got.code, name)
		assert.Contains(t, got.body, try.why, name)
		_, is := nodes.Get(0, "redlock:job")
		require.True(t, is, name)
	}
	require.True(t, lease.Valid())

	got := ask(t, server, http.MethodPost, "/unlock?name=job", good, nil)
	require.Equal(t, http.StatusOK, got.code, got.body)
	require.Contains(t, got.body, "It was held by web-1.")
	_, is := nodes.Get(0, "redlock:job")
	require.False(t, is)
	_, is = nodes.Get(0, "redlock:other")
	require.True(t, is)
}

// A name that nobody can type is typed as the page shows it.
func TestAHostileNameCanBeUnlocked(t *testing.T) {
	nodes := redlocktest.Start(t, 1)
	name := "a\n\u202e\"<b>"
	lease := hold(t, nodes, name, "web-1")
	server := serve(t, nodes, redlockweb.WithUnlock())
	body := url.Values{"token": {tokenOf(t, server, name)}, "typed": {`"a\n\u202e\"<b>"`}, "owner": {lease.Owner()}}.Encode()
	got := ask(t, server, http.MethodPost, "/unlock?name="+url.QueryEscape(name), body, nil)
	require.Equal(t, http.StatusOK, got.code, got.body)
	_, is := nodes.Get(0, "redlock:"+name)
	require.False(t, is)
}

// The form says from which holders the lock is taken away. If none of them has it any more, nothing is changed.
func TestOnlyTheHolderThatThePageShowsLosesTheLock(t *testing.T) {
	nodes := redlocktest.Start(t, 1)
	server := serve(t, nodes, redlockweb.WithUnlock())
	first := hold(t, nodes, "job", "web-1")
	shown := formOf(t, server, "job")
	shown.Set("typed", "job")
	require.Equal(t, []string{first.Owner()}, shown["owner"])
	post := func() answer { return ask(t, server, http.MethodPost, "/unlock?name=job", shown.Encode(), nil) }

	require.NoError(t, first.Unlock(t.Context()))
	got := post()
	assert.Equal(t, http.StatusConflict, got.code)
	assert.Equal(t, "nobody holds it any more: nothing was changed; look at the lock again\n", got.body)

	second := hold(t, nodes, "job", "web-2")
	got = post()
	assert.Equal(t, http.StatusConflict, got.code)
	assert.Contains(t, got.body, "it has another holder by now, web-2: nothing was changed")
	_, is := nodes.Get(0, "redlock:job")
	require.True(t, is)
	require.True(t, second.Valid())

	shown.Set("owner", second.Owner())
	require.Equal(t, http.StatusOK, post().code)
	_, is = nodes.Get(0, "redlock:job")
	require.False(t, is)
}

// A lock that readers share is taken away while one of those that the page shows has it.
func TestReadersThatThePageShowsLoseTheLock(t *testing.T) {
	nodes := redlocktest.Start(t, 1)
	server := serve(t, nodes, redlockweb.WithUnlock())
	read := func(label string) *redlock.Lease {
		lease, err := testclient.Open(t, nodes.URLs(), redlock.WithOwnerLabel(label)).RWMutex("catalog").RLock(t.Context())
		require.NoError(t, err)
		t.Cleanup(func() { runtime.KeepAlive(lease) })
		return lease
	}
	one, two := read("web-1"), read("web-2")
	shown := formOf(t, server, "catalog")
	shown.Set("typed", "catalog")
	require.ElementsMatch(t, []string{one.Owner(), two.Owner()}, shown["owner"])
	require.NoError(t, one.Unlock(t.Context()))
	read("web-3")
	shown["owner"] = []string{one.Owner()}
	require.Equal(t, http.StatusConflict, ask(t, server, http.MethodPost, "/unlock?name=catalog", shown.Encode(), nil).code)
	shown["owner"] = []string{one.Owner(), two.Owner()}
	require.Equal(t, http.StatusOK, ask(t, server, http.MethodPost, "/unlock?name=catalog", shown.Encode(), nil).code)
}

// withLocal serves requests as if they had arrived at an address.
type withLocal struct {
	http.Handler
	local net.Addr
}

func (l *withLocal) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	l.Handler.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, l.local)))
}
