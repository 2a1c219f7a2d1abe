package redlockotel_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/redlockotel"
)

// The cost of the hooks for one Lock and its Unlock over five nodes. It bounds the rate: one
// goroutine of a client calls all hooks.
func BenchmarkHooksOfALockAndItsUnlock(b *testing.B) {
	for name, sampler := range map[string]sdktrace.Sampler{
		"metrics":                  sdktrace.NeverSample(),
		"metrics and 1 % of spans": sdktrace.TraceIDRatioBased(0.01),
		"metrics and all spans":    sdktrace.AlwaysSample(),
	} {
		b.Run(name, func(b *testing.B) {
			telemetry, err := redlockotel.New(
				redlockotel.WithTracerProvider(sdktrace.NewTracerProvider(sdktrace.WithSampler(sampler))),
				redlockotel.WithMeterProvider(sdkmetric.NewMeterProvider(sdkmetric.WithReader(sdkmetric.NewManualReader()))))
			require.NoError(b, err)
			trace := telemetry.Trace()
			b.ReportAllocs()
			for id := uint64(1); b.Loop(); id += 2 {
				traceCall(trace, "lock", id)
				traceCall(trace, "unlock", id+1)
			}
		})
	}
}

var nodeNames = []string{
	"node 0 (10.0.0.1:6379)", "node 1 (10.0.1.1:6379)", "node 2 (10.0.2.1:6379)", "node 3 (10.0.3.1:6379)", "node 4 (10.0.4.1:6379)",
}

// traceCall calls the hooks as a client does for one call.
func traceCall(t *redlock.Trace, op string, id uint64) {
	call := redlock.CallEvent{Context: context.Background(), Time: time.Now(), Call: id, Op: op, Name: "x"}
	ballot := redlock.BallotEvent{Context: call.Context, Time: call.Time, Call: id, Ballot: id, Op: op, Name: "x", Owner: "me"}
	t.CallStart(call)
	t.BallotStart(ballot)
	for i, node := range nodeNames {
		if i == 3 { // the verdict
			end := ballot
			end.Elapsed, end.Outcome, end.Granted = time.Millisecond, "granted", 3
			t.BallotEnd(end)
			returned := call
			returned.Elapsed, returned.Owner, returned.Token = time.Millisecond, "me", 1
			t.CallEnd(returned)
		}
		t.BallotVote(redlock.BallotVote{Context: ballot.Context, Time: ballot.Time, Call: id, Ballot: id, Op: op, Name: "x", Owner: "me", Latency: time.Millisecond, Late: i >= 3,
			Vote: redlock.Vote{Index: i, Node: node, Outcome: "granted"}})
	}
}
