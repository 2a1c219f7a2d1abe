package browser

import (
	"context"
	"net/http/httptest"
	"os"
	"os/exec"
	"runtime"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/chromedp"
	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/test/long"
	"github.com/redlock-go/redlock/internal/test/testclient"
	"github.com/redlock-go/redlock/redlocktest"
	"github.com/redlock-go/redlock/redlockweb"
)

// soon is the limit for what takes a second or two on an idle machine.
const soon = 40 * time.Second

// options are the settings of all clients.
var options = []redlock.ClientOption{redlock.WithTTL(9 * time.Second), redlock.WithNodeTimeout(4 * time.Second)}

// open opens a client that ends with the test.
func open(t *testing.T, nodes *redlocktest.Nodes, opts ...redlock.ClientOption) *redlock.Client {
	t.Helper()
	return testclient.Open(t, nodes.URLs(), append(options[:len(options):len(options)], opts...)...)
}

// browsers are the names of programs that chromedp can drive.
var browsers = []string{"chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome", "headless-shell"}

// findBrowser returns the path of a browser, or skips the test.
func findBrowser(t *testing.T) string {
	t.Helper()
	if !long.Tests() {
		t.Skip("make verify runs it")
	}
	for _, name := range browsers {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	t.Skip("there is no Chromium to look at the page with (Debian: apt-get install chromium)")
	return ""
}

// openBrowser starts a browser that ends with the test.
func openBrowser(t *testing.T, more ...chromedp.ExecAllocatorOption) context.Context {
	t.Helper()
	opts := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(findBrowser(t)), chromedp.WSURLReadTimeout(soon))
	if os.Geteuid() == 0 {
		opts = append(opts, chromedp.NoSandbox)
	}
	allocator, free := chromedp.NewExecAllocator(context.Background(), append(opts, more...)...)
	t.Cleanup(free)
	ctx, end := chromedp.NewContext(allocator)
	t.Cleanup(end)
	_, err := chromedp.Run(ctx, chromedp.Steps()) // it starts the browser, which ends with this context
	require.NoError(t, err)
	return ctx
}

// do runs actions in the browser.
func do(t *testing.T, browser context.Context, steps ...chromedp.Action[chromedp.Void]) {
	t.Helper()
	run(t, browser, chromedp.Steps(steps...))
}

// run runs an action in the browser, and returns its value.
func run[T any](t *testing.T, browser context.Context, action chromedp.Action[T]) T {
	t.Helper()
	ctx, cancel := context.WithTimeout(browser, soon)
	defer cancel()
	value, err := chromedp.Run(ctx, action)
	require.NoError(t, err)
	return value
}

// command returns the action of a command of the browser's protocol.
func command[P, R any](c cdp.Command[P, R], params P) chromedp.Action[R] {
	return func(ctx context.Context, to *chromedp.Target) (R, error) { return cdp.Call(ctx, to, c, params) }
}

// eval returns the value of an expression in the page.
func eval[T any](t *testing.T, browser context.Context, expression string) T {
	t.Helper()
	return run(t, browser, chromedp.Evaluate[T](expression))
}

// await waits until an expression is true in the page, which may load anew meanwhile.
func await(t *testing.T, browser context.Context, expression string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(browser, soon)
	defer cancel()
	for {
		is, err := chromedp.Run(ctx, chromedp.Evaluate[bool]("!!("+expression+")"))
		if is {
			return
		}
		if ctx.Err() != nil {
			text, _ := chromedp.Run(browser, chromedp.Evaluate[string]("document.body.innerText"))
			require.FailNow(t, "never true", "%s\n%v\n%s", expression, err, text)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// serve serves the page of the nodes, and returns its URL.
func serve(t *testing.T, nodes *redlocktest.Nodes, opts ...redlockweb.Option) string {
	t.Helper()
	trips := &redlockweb.RoundTrips{}
	client := open(t, nodes, redlock.WithTrace(&redlock.Trace{BallotVote: trips.BallotVote}))
	page := redlockweb.New(client, append(opts, redlockweb.WithRoundTrips(trips))...)
	server := httptest.NewServer(page)
	t.Cleanup(func() {
		_ = page.Close()
		server.Close()
	})
	return server.URL
}

// hold holds a lock until the test ends: a lease that is dropped would be released.
func hold(t *testing.T, nodes *redlocktest.Nodes, name, label string, opts ...redlock.ClientOption) *redlock.Lease {
	t.Helper()
	return keep(t, nodes.Hold(t, name, label, append(options[:len(options):len(options)], opts...)...))
}

// keep keeps a lease until the test ends.
func keep(t *testing.T, lease *redlock.Lease) *redlock.Lease {
	t.Cleanup(func() { runtime.KeepAlive(lease) })
	return lease
}

// wait has a client of its own wait for something until the test ends, or the returned function is called.
func wait(t *testing.T, nodes *redlocktest.Nodes, label string, acquire func(context.Context, *redlock.Client) error) (leave func()) {
	t.Helper()
	client := open(t, nodes, redlock.WithOwnerLabel(label))
	ctx, cancel := context.WithCancel(context.Background())
	over := make(chan struct{})
	go func() {
		defer close(over)
		_ = acquire(ctx, client)
		<-ctx.Done()
	}()
	leave = func() {
		cancel()
		<-over
	}
	t.Cleanup(leave)
	return leave
}

// forLock waits for a lock, and keeps it.
func forLock(name string) func(context.Context, *redlock.Client) error {
	return func(ctx context.Context, c *redlock.Client) error {
		lease, err := c.Mutex(name).Lock(ctx)
		if err != nil {
			return err
		}
		<-ctx.Done()
		return lease.Unlock(context.WithoutCancel(ctx))
	}
}

// set writes a lock's key at all nodes, as a program without a client does; without an end if ttl is 0.
func set(t *testing.T, nodes *redlocktest.Nodes, name, value string, ttl time.Duration) {
	t.Helper()
	for _, url := range nodes.URLs() {
		c, err := redis.DialURL(url)
		require.NoError(t, err)
		args := redis.Args{"redlock:" + name, value}
		if ttl > 0 {
			args = args.Add("PX", ttl.Milliseconds())
		}
		_, err = c.Do("SET", args...)
		require.NoError(t, err)
		require.NoError(t, c.Close())
	}
}
