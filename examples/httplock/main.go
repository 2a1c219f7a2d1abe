// Httplock serves an HTTP handler that lets one request work on a report at a time, over all
// servers; the others get the holder's name, and when to try again.
//
//	go run ./examples/httplock
//
// The HTTP client waits for the answer: so the handler does not wait for the lock, but uses
// TryLock. A request that is refused gets 409 Conflict with Retry-After and the holder's
// name; if too few nodes answer, 503 Service Unavailable.
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/examples/internal/servers"
)

// ttl bounds Retry-After: the lease of a handler that works for longer is renewed.
const ttl = 3 * time.Second

func main() {
	if err := run(context.Background(), os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "httplock:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, out io.Writer) error {
	nodes, err := servers.Start(out, 3)
	if err != nil {
		return err
	}
	defer nodes.Close()
	began, finish := make(chan string, 2), make(chan struct{})
	build := func(_ context.Context, report string, token int64) error {
		began <- report
		<-finish
		return nil
	}
	var urls [2]string
	for i := range urls {
		client, err := nodes.Client(ctx, fmt.Sprint("web-", i+1), redlock.WithTTL(ttl))
		if err != nil {
			return err
		}
		defer client.Close()
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return err
		}
		server := &http.Server{Handler: handler(client, build), ReadHeaderTimeout: time.Second}
		go server.Serve(listener)
		defer server.Close()
		urls[i] = "http://" + listener.Addr().String() + "/reports/"
	}

	first := make(chan answer, 1)
	go func() { first <- post(ctx, urls[0]+"june") }()
	select {
	case <-began: // web-1 is at work now
	case a := <-first:
		return fmt.Errorf("the first request was not let in: %v %s", a.err, a.text)
	}
	second := post(ctx, urls[1]+"june")
	close(finish)
	third := post(ctx, urls[1]+"july") // another name, another lock
	fmt.Fprintf(out, "POST to web-1, june:                  %s\n", <-first)
	fmt.Fprintf(out, "POST to web-2, june, at the same time: %s\n", second)
	fmt.Fprintf(out, "POST to web-2, july:                  %s\n", third)
	fmt.Fprintf(out, "POST to web-2, june, when it is free:  %s\n", post(ctx, urls[1]+"june"))
	return nil
}

// answer is the answer to a request.
type answer struct {
	status, retryAfter, text string
	err                      error
}

func (a answer) String() string {
	if a.err != nil {
		return a.err.Error()
	}
	if a.retryAfter != "" {
		return fmt.Sprintf("%s, Retry-After: %s, %s", a.status, a.retryAfter, a.text)
	}
	return a.status + ", " + a.text
}

func post(ctx context.Context, url string) answer {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, http.NoBody)
	if err != nil {
		return answer{err: err}
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return answer{err: err}
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	return answer{response.Status, response.Header.Get("Retry-After"), strings.TrimSpace(string(text)), err}
}

// builder is the work under the lock. It must end with ctx, and pass the token to the
// resource that it writes to.
type builder func(ctx context.Context, report string, token int64) error

// handler builds the report that the path names.
func handler(client *redlock.Client, build builder) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /reports/{name}", func(w http.ResponseWriter, r *http.Request) {
		name := r.PathValue("name")
		lease, err := client.Mutex("report:" + name).TryLock(r.Context())
		if err != nil {
			refuse(w, err)
			return
		}
		// Unlock works also when the request's context has ended: the release goes to
		// the nodes all the same.
		defer lease.Unlock(r.Context())
		ctx, cancel := lease.Context(r.Context())
		defer cancel()
		if err := build(ctx, name, lease.Token()); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		fmt.Fprintf(w, "report %s is built", name)
	})
	return mux
}

// refuse answers a request that did not get the lock: why, and when to try again.
func refuse(w http.ResponseWriter, err error) {
	var held *redlock.HeldError
	if !errors.As(err, &held) {
		w.Header().Set("Retry-After", "1")
		http.Error(w, "locks are not available just now", http.StatusServiceUnavailable)
		return
	}
	w.Header().Set("Retry-After", fmt.Sprint(seconds(held.Remaining)))
	http.Error(w, "being built by "+cmp.Or(held.Label, "somebody else"), http.StatusConflict)
}

// seconds rounds up to whole seconds; it returns 1 if the time is unknown or has no end.
func seconds(d time.Duration) int64 {
	return max(1, int64((d+time.Second-1)/time.Second))
}
