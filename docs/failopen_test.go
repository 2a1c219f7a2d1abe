package docs_test

import (
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/test/testclient"
	"github.com/redlock-go/redlock/redlocktest"
)

// The functions below are the code of docs/fail-open-or-closed.md: TestThePageHasTheCodeThatIsTested compares.

func failClosed(w http.ResponseWriter, r *http.Request, client *redlock.Client, charge func(context.Context, int64) error) {
	began := false
	invoice := client.Mutex("invoice-42", redlock.WithWait(2*time.Second))
	err := invoice.Do(r.Context(), func(ctx context.Context, lease *redlock.Lease) error {
		began = true
		return charge(ctx, lease.Token())
	})
	var quorum *redlock.QuorumError
	switch {
	case err == nil:
		w.WriteHeader(http.StatusNoContent)
	case began: // the charge failed, or its lease was lost (ErrLost)
		http.Error(w, "the charge failed", http.StatusInternalServerError)
	case errors.Is(err, redlock.ErrHeld):
		http.Error(w, "another request charges this invoice", http.StatusConflict)
	case errors.As(err, &quorum):
		slog.Error("no quorum: refused to work", "lock", quorum.Name, "err", err)
		seconds := max(1, (quorum.RetryAfter+time.Second-1)/time.Second)
		w.Header().Set("Retry-After", fmt.Sprint(int64(seconds)))
		http.Error(w, "locks are not available", http.StatusServiceUnavailable)
	default: // the request ended before a ballot, or a setting is bad
		http.Error(w, "not charged", http.StatusInternalServerError)
	}
}

func failOpen(ctx context.Context, client *redlock.Client, render func(context.Context) error) error {
	began := false
	thumbnail := client.Mutex("thumbnail-7", redlock.WithWait(time.Second))
	err := thumbnail.Do(ctx, func(ctx context.Context, _ *redlock.Lease) error {
		began = true
		return render(ctx)
	})
	if began || ctx.Err() != nil || !errors.Is(err, redlock.ErrNoQuorum) {
		return err // done, held, lost, or render's own error
	}
	slog.Warn("no quorum: working without the lock", "lock", "thumbnail-7", "err", err)
	return render(ctx)
}

func failOpenInPart(ctx context.Context, client *redlock.Client, render func(context.Context) error,
	publish func(context.Context, int64) error, postpone func(context.Context) error) error {
	began := false
	report := client.Mutex("report", redlock.WithWait(time.Second))
	err := report.Do(ctx, func(ctx context.Context, lease *redlock.Lease) error {
		began = true
		if err := render(ctx); err != nil {
			return err
		}
		return publish(ctx, lease.Token()) // the resource refuses an older token
	})
	if began || ctx.Err() != nil || !errors.Is(err, redlock.ErrNoQuorum) {
		return err
	}
	slog.Warn("no quorum: rendered only", "lock", "report", "err", err)
	if err := render(ctx); err != nil { // idempotent: twice does no harm
		return err
	}
	return postpone(ctx) // publish when a lease, and so a token, is available
}

const policies = "docs/fail-open-or-closed.md"

func TestThePageHasTheCodeThatIsTested(t *testing.T) {
	const file = "docs/failopen_test.go"
	source, places := read(t, file), token.NewFileSet()
	tree, err := parser.ParseFile(places, file, source, parser.SkipObjectResolution)
	require.NoError(t, err)
	bodies := map[string]string{}
	for _, d := range tree.Decls {
		if fn, ok := d.(*ast.FuncDecl); ok {
			body := source[places.Position(fn.Body.Lbrace).Offset+2 : places.Position(fn.Body.Rbrace).Offset]
			bodies[fn.Name.Name] = strings.ReplaceAll("\n"+body, "\n\t", "\n")[1:]
		}
	}
	snippets := snippet.FindAllStringSubmatch(read(t, policies), -1)
	require.Len(t, snippets, 3)
	for i, name := range []string{"failClosed", "failOpen", "failOpenInPart"} {
		assert.Equal(t, bodies[name], snippets[i][2], name)
	}
}

var errOwn = errors.New("an error of the work")

// policy makes a call of each function above, with a work that counts its runs and returns an error.
var policy = map[string]func(ctx context.Context, c *redlock.Client, work func(context.Context) error) (postponed bool, err error){
	"closed": func(ctx context.Context, c *redlock.Client, work func(context.Context) error) (bool, error) {
		w, r := httptest.NewRecorder(), httptest.NewRequestWithContext(ctx, http.MethodPost, "/", http.NoBody)
		failClosed(w, r, c, func(ctx context.Context, _ int64) error { return work(ctx) })
		if w.Code == http.StatusNoContent {
			return false, nil
		}
		return false, fmt.Errorf("%d after %q", w.Code, w.Header().Get("Retry-After"))
	},
	"open": func(ctx context.Context, c *redlock.Client, work func(context.Context) error) (bool, error) {
		return false, failOpen(ctx, c, work)
	},
	"in part": func(ctx context.Context, c *redlock.Client, work func(context.Context) error) (postponed bool, err error) {
		err = failOpenInPart(ctx, c, work, func(_ context.Context, token int64) error {
			if token == 0 {
				return errors.New("published without a token")
			}
			return nil
		}, func(context.Context) error { postponed = true; return nil })
		return postponed, err
	},
}

var locks = map[string]string{"closed": "invoice-42", "open": "thumbnail-7", "in part": "report"}

func TestEachPolicyDoesWhatThePageSays(t *testing.T) {
	const answered = "%d after %q"
	for name, call := range policy {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			nodes := redlocktest.Start(t, 3)
			client, runs := testclient.Open(t, nodes.URLs(), redlock.WithTTL(time.Minute)), 0
			do := func(ctx context.Context, result error) (bool, error) {
				runs = 0
				return call(ctx, client, func(context.Context) error { runs++; return result })
			}
			closed := name == "closed"

			postponed, err := do(t.Context(), nil)
			require.NoError(t, err, "the lock is free")
			require.Equal(t, 1, runs)
			require.False(t, postponed)

			_, err = do(t.Context(), errors.Join(errOwn, redlock.ErrNoQuorum))
			require.Error(t, err)
			require.Equal(t, 1, runs, "the work had begun under a lease: it is not repeated without one")

			lease := nodes.Hold(t, locks[name], "web-2")
			_, err = do(t.Context(), nil)
			require.Error(t, err)
			require.Zero(t, runs, "another caller holds the lock")
			if closed {
				require.EqualError(t, err, fmt.Sprintf(answered, http.StatusConflict, ""))
			} else {
				require.ErrorIs(t, err, redlock.ErrHeld)
			}
			require.NoError(t, lease.Unlock(t.Context()))

			nodes.Stop(0)
			nodes.Stop(1)
			postponed, err = do(t.Context(), nil)
			if closed {
				require.EqualError(t, err, fmt.Sprintf(answered, http.StatusServiceUnavailable, "1"))
				require.Zero(t, runs, "no quorum")
			} else {
				require.NoError(t, err)
				require.Equal(t, 1, runs, "no quorum")
			}
			require.Equal(t, name == "in part", postponed)

			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			defer cancel()
			_, err = do(ctx, nil)
			require.Error(t, err)
			require.Zero(t, runs, "the caller has gone")
		})
	}
}

// A new cluster does not vote for a guard, and says for how long.
func TestRetryAfterIsTheTimeUntilTheMastersVote(t *testing.T) {
	nodes := redlocktest.Start(t, 3)
	client := testclient.OpenUnready(t, nodes.URLs(), redlock.WithRestartGuard(time.Minute))
	w, r := httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", http.NoBody)
	failClosed(w, r, client, func(context.Context, int64) error { return errOwn })
	require.Equal(t, http.StatusServiceUnavailable, w.Code)
	after, err := time.ParseDuration(w.Header().Get("Retry-After") + "s")
	require.NoError(t, err)
	require.Greater(t, after, 10*time.Second)
	require.LessOrEqual(t, after, time.Minute)
}
