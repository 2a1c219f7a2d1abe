package docs_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/test/testclient"
	"github.com/redlock-go/redlock/redlocktest"
)

// The declarations from here to refuse are those of docs/http-handler.md: TestTheProgramsOfThePagesAreThoseThatAreTested
// compares.

// work must end with ctx, and pass the token to the resource that it writes to.
type work func(ctx context.Context, invoice string, token int64) error

func newMux(client *redlock.Client, charge work) *http.ServeMux {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /invoices/{id}/charge", func(w http.ResponseWriter, r *http.Request) {
		chargeUnderLock(w, r, client, charge)
	})
	mux.HandleFunc("GET /live", func(http.ResponseWriter, *http.Request) {}) // 200: it asks no master
	mux.HandleFunc("GET /ready", func(w http.ResponseWriter, r *http.Request) {
		if err := client.Ping(r.Context()); err != nil {
			http.Error(w, "locks are not available", http.StatusServiceUnavailable)
		}
	})
	return mux
}

func chargeUnderLock(w http.ResponseWriter, r *http.Request, client *redlock.Client, charge work) {
	id := r.PathValue("id")
	if len(id) > 64 { // the client of the API chooses this part of the name
		http.Error(w, "no such invoice", http.StatusNotFound)
		return
	}
	lease, err := client.Mutex("invoice-" + id).TryLock(r.Context())
	if err != nil {
		refuse(w, err)
		return
	}
	defer lease.Unlock(r.Context()) // it releases also when r.Context() has ended
	ctx, cancel := lease.Context(r.Context())
	defer cancel()
	switch err := charge(ctx, id, lease.Token()); {
	case err == nil:
		w.WriteHeader(http.StatusNoContent)
	case errors.Is(context.Cause(ctx), redlock.ErrLost):
		http.Error(w, "the outcome is not known: read the invoice", http.StatusInternalServerError)
	default:
		http.Error(w, "the charge failed", http.StatusInternalServerError)
	}
}

// refuse answers a request that did not get the lock. Nothing was done.
func refuse(w http.ResponseWriter, err error) {
	var held *redlock.HeldError
	var quorum *redlock.QuorumError
	switch {
	case errors.As(err, &held):
		http.Error(w, fmt.Sprintf("being charged by %q", cmp.Or(held.Label, "another request")), http.StatusConflict)
	case errors.As(err, &quorum):
		log.Print(err) // it names each master's cause
		seconds := max(1, (quorum.RetryAfter+time.Second-1)/time.Second)
		w.Header().Set("Retry-After", fmt.Sprint(int64(seconds)))
		http.Error(w, "locks are not available", http.StatusServiceUnavailable)
	case errors.Is(err, redlock.ErrClosed):
		w.Header().Set("Retry-After", "1")
		http.Error(w, "shutting down", http.StatusServiceUnavailable)
	default: // ErrConfig, or the client has gone
		http.Error(w, "not charged", http.StatusInternalServerError)
	}
}

const handlerPage = "docs/http-handler.md"

// answered is what the handler answered.
type answered struct{ status, retryAfter, text string }

// ask sends a request to the handler of the page, and returns the answer.
func ask(ctx context.Context, client *redlock.Client, charge work, request string) answered {
	method, path, _ := strings.Cut(request, " ")
	w, r := httptest.NewRecorder(), httptest.NewRequestWithContext(ctx, method, path, http.NoBody)
	newMux(client, charge).ServeHTTP(w, r)
	return answered{fmt.Sprint(w.Code), w.Header().Get("Retry-After"), strings.TrimSpace(w.Body.String())}
}

const chargeRequest = "POST /invoices/42/charge"

var statusRow = regexp.MustCompile("(?m)^\\| `?([^|`]+)`? \\| (\\d+) \\| ([^|]+) \\|")

// Each case makes an error, and returns what the handler answers to it.
var statusCases = map[string]func(t *testing.T, nodes *redlocktest.Nodes, client *redlock.Client) answered{
	"ErrHeld": func(t *testing.T, nodes *redlocktest.Nodes, client *redlock.Client) answered {
		nodes.Hold(t, "invoice-42", "web-2")
		a := ask(t.Context(), client, mustNotWork(t), chargeRequest)
		assert.Equal(t, `being charged by "web-2"`, a.text)
		return a
	},
	"ErrNoQuorum": func(t *testing.T, nodes *redlocktest.Nodes, client *redlock.Client) answered {
		nodes.Stop(0)
		nodes.Stop(1)
		a := ask(t.Context(), client, mustNotWork(t), chargeRequest)
		assert.Equal(t, answered{"503", "1", "locks are not available"}, a, "it is not known when the nodes are back")
		return a
	},
	"ErrClosed": func(t *testing.T, _ *redlocktest.Nodes, client *redlock.Client) answered {
		require.NoError(t, client.Close())
		return ask(t.Context(), client, mustNotWork(t), chargeRequest)
	},
	"ErrLost": func(t *testing.T, nodes *redlocktest.Nodes, client *redlock.Client) answered {
		a := ask(t.Context(), client, func(ctx context.Context, _ string, _ int64) error {
			nodes.Lose(t, "invoice-42")
			<-ctx.Done()
			return ctx.Err()
		}, chargeRequest)
		assert.Equal(t, "the outcome is not known: read the invoice", a.text)
		return a
	},
	"ErrConfig": func(t *testing.T, nodes *redlocktest.Nodes, _ *redlock.Client) answered {
		w := httptest.NewRecorder()
		_, err := testclient.Open(t, nodes.URLs()).Mutex("").TryLock(t.Context())
		require.ErrorIs(t, err, redlock.ErrConfig)
		refuse(w, err)
		return answered{fmt.Sprint(w.Code), w.Header().Get("Retry-After"), w.Body.String()}
	},
	"the work's own error": func(t *testing.T, _ *redlocktest.Nodes, client *redlock.Client) answered {
		// It may be any error, such as one of another lock: the work has begun, so the answer is not 503.
		return ask(t.Context(), client, func(context.Context, string, int64) error { return redlock.ErrNoQuorum }, chargeRequest)
	},
}

func mustNotWork(t *testing.T) work {
	return func(context.Context, string, int64) error { t.Error("the work began"); return nil }
}

func TestEachErrorGetsTheStatusOfThePage(t *testing.T) {
	rows := statusRow.FindAllStringSubmatch(read(t, handlerPage), -1)
	require.Len(t, rows, len(statusCases))
	for _, row := range rows {
		happened, status, retryAfter := row[1], row[2], row[3]
		require.Contains(t, statusCases, happened)
		t.Run(happened, func(t *testing.T) {
			t.Parallel()
			nodes := redlocktest.Start(t, 3)
			a := statusCases[happened](t, nodes, testclient.Open(t, nodes.URLs(), redlock.WithRenewEvery(200*time.Millisecond)))
			assert.Equal(t, status, a.status)
			assert.Equal(t, retryAfter == "none", a.retryAfter == "", "Retry-After: %s", a.retryAfter)
		})
	}
}

func TestTheHandlerWorksUnderTheLockAndReleasesIt(t *testing.T) {
	nodes := redlocktest.Start(t, 3)
	client, other := testclient.Open(t, nodes.URLs()), testclient.Open(t, nodes.URLs())
	charge := func(ctx context.Context, invoice string, token int64) error {
		_, err := other.Mutex("invoice-" + invoice).TryLock(ctx)
		require.ErrorIs(t, err, redlock.ErrHeld)
		require.Positive(t, token)
		return nil
	}
	for range 2 {
		require.Equal(t, answered{status: "204"}, ask(t.Context(), client, charge, chargeRequest))
	}
	tooLong := "POST /invoices/" + strings.Repeat("4", 5000) + "/charge"
	require.Equal(t, "404", ask(t.Context(), client, mustNotWork(t), tooLong).status, "no user can cause ErrConfig")
}

// After a restart the masters say how long they do not vote.
func TestTheHandlersRetryAfterIsTheTimeUntilTheMastersVote(t *testing.T) {
	client := testclient.OpenUnready(t, redlocktest.Start(t, 3).URLs(), redlock.WithRestartGuard(time.Minute))
	a := ask(t.Context(), client, mustNotWork(t), chargeRequest)
	require.Equal(t, "503", a.status)
	after, err := time.ParseDuration(a.retryAfter + "s")
	require.NoError(t, err)
	require.Greater(t, after, 10*time.Second)
	require.LessOrEqual(t, after, time.Minute)
}

// With WithWait in the place of TryLock, refuse answers the same.
func TestAHandlerThatWaitsALittleAnswersTheSame(t *testing.T) {
	t.Parallel()
	nodes := redlocktest.Start(t, 3)
	invoice := testclient.Open(t, nodes.URLs()).Mutex("invoice-42", redlock.WithWait(2*time.Second)) // a busy machine answers late
	statusOf := func() string {
		_, err := invoice.Lock(t.Context())
		require.ErrorIs(t, err, context.DeadlineExceeded)
		w := httptest.NewRecorder()
		refuse(w, err)
		return fmt.Sprint(w.Code, " ", w.Header().Get("Retry-After"))
	}
	lease := nodes.Hold(t, "invoice-42", "web-2")
	require.Equal(t, "409 ", statusOf())
	require.NoError(t, lease.Unlock(t.Context()))
	nodes.Stop(0)
	nodes.Stop(1)
	require.Equal(t, "503 1", statusOf())
}

func TestAClientThatDisconnectsEndsTheWorkAndFreesTheLock(t *testing.T) {
	nodes := redlocktest.Start(t, 3)
	client := testclient.Open(t, nodes.URLs())
	request, disconnect := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	ask(request, client, func(ctx context.Context, _ string, _ int64) error {
		disconnect()
		<-ctx.Done()
		ended <- context.Cause(ctx)
		return ctx.Err()
	}, chargeRequest)
	require.ErrorIs(t, <-ended, context.Canceled)
	lease, err := testclient.Open(t, nodes.URLs()).Mutex("invoice-42").TryLock(t.Context())
	require.NoError(t, err, "Unlock released it though its ctx had ended")
	require.NoError(t, lease.Unlock(t.Context()))
}

func TestOnlyReadinessAsksTheMasters(t *testing.T) {
	nodes := redlocktest.Start(t, 3)
	client := testclient.Open(t, nodes.URLs())
	require.Equal(t, "200", ask(t.Context(), client, nil, "GET /ready").status)
	nodes.Stop(0)
	nodes.Stop(1)
	require.Equal(t, "503", ask(t.Context(), client, nil, "GET /ready").status)
	require.Equal(t, "200", ask(t.Context(), client, nil, "GET /live").status)
}
