package main

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/redlock-go/redlock/examples/internal/demo"
	"github.com/redlock-go/redlock/internal/test/testclient"
	"github.com/redlock-go/redlock/redlocktest"
)

func TestRefusedRequestGetsTheHolderAndRetryAfter(t *testing.T) {
	out := demo.Run(t, run)
	assert.Regexp(t, `web-1, june: +200 OK, report june is built\n`, out)
	assert.Regexp(t, `at the same time: 409 Conflict, Retry-After: [123], being built by web-1\n`, out)
	assert.Regexp(t, `web-2, july: +200 OK`, out)
	assert.Regexp(t, `when it is free: +200 OK`, out)
}

func TestWithoutAMajorityTheServiceIsUnavailable(t *testing.T) {
	nodes := redlocktest.Start(t, 3)
	client := testclient.Open(t, nodes.URLs())
	nodes.Stop(0)
	nodes.Stop(1)
	build := func(context.Context, string, int64) error { t.Error("built without a lock"); return nil }
	response := httptest.NewRecorder()
	handler(client, build).ServeHTTP(response, httptest.NewRequest(http.MethodPost, "/reports/june", nil))
	assert.Equal(t, http.StatusServiceUnavailable, response.Code)
	assert.Equal(t, "1", response.Header().Get("Retry-After"))
}

func TestRetryAfterIsInWholeSecondsAndAtLeastOne(t *testing.T) {
	for d, want := range map[time.Duration]int64{0: 1, -1: 1, 1: 1, time.Second: 1, time.Second + 1: 2} {
		assert.Equal(t, want, seconds(d), d)
	}
}
