package redlockotel

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/redlock-go/redlock"
)

// If the end of a ballot was dropped, its span is ended later, and not kept.
func TestSpansWhoseEndWasDroppedDoNotPileUp(t *testing.T) {
	exporter := tracetest.NewInMemoryExporter()
	telemetry, err := New(WithTracerProvider(sdktrace.NewTracerProvider(sdktrace.WithSyncer(exporter))))
	require.NoError(t, err)
	began := time.Now()
	for i := range 10 * maxOpen {
		telemetry.ballotStart(redlock.BallotEvent{Context: context.Background(), Ballot: uint64(i),
			Time: began.Add(time.Duration(i) * time.Second)})
	}
	require.LessOrEqual(t, len(telemetry.ballots.open), maxOpen)
	require.Len(t, exporter.GetSpans(), 10*maxOpen-len(telemetry.ballots.open), "none is lost")
}

func TestSpansOfCallsThatWaitLongAreKept(t *testing.T) {
	telemetry, err := New(WithTracerProvider(sdktrace.NewTracerProvider()))
	require.NoError(t, err)
	began := time.Now()
	for i := range 2 * maxOpen {
		telemetry.callStart(redlock.CallEvent{Context: context.Background(), Call: uint64(i),
			Time: began.Add(time.Duration(i) * time.Millisecond)})
	}
	require.Len(t, telemetry.calls.open, 2*maxOpen)
}
