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
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/examples/internal/demo"
)

// ttl bounds Retry-After: the lease of a handler that works for longer is renewed.
const ttl = 3 * time.Second

func main() { demo.Main(run) }

func run(ctx context.Context, d *demo.Demo) error {
	began, finish := make(chan string, 2), make(chan struct{})
	build := func(_ context.Context, report string, token int64) error {
		began <- report
		<-finish
		return nil
	}
	var urls [2]string
	for i := range urls {
		client, err := d.Open(ctx, fmt.Sprint("web-", i+1), redlock.WithTTL(ttl))
		if err != nil {
			return err
		}
		defer client.Close()
		server := httptest.NewServer(handler(client, build))
		defer server.Close()
		urls[i] = server.URL + "/reports/"
	}

	first := make(chan string, 1)
	go func() { first <- post(ctx, urls[0]+"june") }()
	select {
	case <-began: // web-1 is at work now
	case answer := <-first:
		return fmt.Errorf("the first request was not let in: %s", answer)
	}
	second := post(ctx, urls[1]+"june")
	close(finish)
	third := post(ctx, urls[1]+"july") // another name, another lock
	d.Say("POST to web-1, june:                  %s", <-first)
	d.Say("POST to web-2, june, at the same time: %s", second)
	d.Say("POST to web-2, july:                  %s", third)
	d.Say("POST to web-2, june, when it is free:  %s", post(ctx, urls[1]+"june"))
	return nil
}

// post returns the answer to a request.
func post(ctx context.Context, url string) string {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, http.NoBody)
	if err != nil {
		return err.Error()
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err.Error()
	}
	defer response.Body.Close()
	text, _ := io.ReadAll(response.Body)
	retryAfter := ""
	if seconds := response.Header.Get("Retry-After"); seconds != "" {
		retryAfter = ", Retry-After: " + seconds
	}
	return fmt.Sprintf("%s%s, %s", response.Status, retryAfter, bytes.TrimSpace(text))
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
