package redlockweb_test

import (
	"html"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/test/testclient"
	"github.com/redlock-go/redlock/redlocktest"
	"github.com/redlock-go/redlock/redlockweb"
)

// soon is the limit for what takes a second on an idle machine.
const soon = 30 * time.Second

// serve serves the page of some nodes until the test ends.
func serve(t *testing.T, nodes *redlocktest.Nodes, opts ...redlockweb.Option) *httptest.Server {
	t.Helper()
	return serveHandler(t, redlockweb.New(testclient.Open(t, nodes.URLs()), opts...))
}

func serveHandler(t *testing.T, page *redlockweb.Handler) *httptest.Server {
	t.Helper()
	server := httptest.NewServer(page)
	t.Cleanup(func() {
		require.NoError(t, page.Close())
		server.Close()
	})
	return server
}

// hold holds a lock until the test ends: a lease that is dropped would be released.
func hold(t *testing.T, nodes *redlocktest.Nodes, name, label string, opts ...redlock.ClientOption) *redlock.Lease {
	t.Helper()
	lease := nodes.Hold(t, name, label, append(opts, redlock.WithNodeTimeout(time.Second))...)
	t.Cleanup(func() { runtime.KeepAlive(lease) })
	return lease
}

// answer is what a server answers.
type answer struct {
	code   int
	header http.Header
	body   string
}

// ask makes a request of a browser's; change changes it.
func ask(t *testing.T, server *httptest.Server, method, path, body string, change func(*http.Request)) answer {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, server.URL+path, strings.NewReader(body))
	require.NoError(t, err)
	if method == http.MethodPost {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set("Origin", server.URL)
		r.Header.Set("Sec-Fetch-Site", "same-origin")
	}
	if change != nil {
		change(r)
	}
	to := &http.Client{Transport: server.Client().Transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	got, err := to.Do(r)
	require.NoError(t, err)
	defer got.Body.Close()
	text, err := io.ReadAll(got.Body)
	require.NoError(t, err)
	return answer{got.StatusCode, got.Header, string(text)}
}

func get(t *testing.T, server *httptest.Server, path string) answer {
	t.Helper()
	return ask(t, server, http.MethodGet, path, "", nil)
}

// formOf returns the hidden values of the form on a lock's page.
func formOf(t *testing.T, server *httptest.Server, name string) url.Values {
	t.Helper()
	form := url.Values{}
	for _, m := range regexp.MustCompile(`type="hidden" name="(\w+)" value="([^"]+)"`).FindAllStringSubmatch(get(t, server, "/lock?name="+url.QueryEscape(name)).body, -1) {
		form.Add(m[1], html.UnescapeString(m[2]))
	}
	require.NotEmpty(t, form, "the page of %q has no form", name)
	return form
}

// tokenOf returns the token of the form on a lock's page.
func tokenOf(t *testing.T, server *httptest.Server, name string) string {
	t.Helper()
	return formOf(t, server, name).Get("token")
}
