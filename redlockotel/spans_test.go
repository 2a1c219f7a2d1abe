package redlockotel

import (
	"context"
	"runtime/debug"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
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

func TestVersionIsThatOfThisModuleInTheProgram(t *testing.T) {
	ours := debug.Module{Path: scope, Version: "v0.3.1"}
	replaced := debug.Module{Path: scope, Version: "v0.3.1", Replace: &debug.Module{Path: "example.com/fork", Version: "v0.3.2"}}
	local := debug.Module{Path: scope, Version: "v0.3.1", Replace: &debug.Module{Path: "../redlockotel"}}
	other := &debug.Module{Path: "github.com/redlock-go/redlock", Version: "v0.4.0"}
	for want, info := range map[string]*debug.BuildInfo{
		"v0.3.1":  {Main: debug.Module{Path: "example.com/shop", Version: "v9.9.9"}, Deps: []*debug.Module{other, &ours}},
		"v0.3.2":  {Deps: []*debug.Module{other, &replaced}},
		"(devel)": {Main: debug.Module{Path: "example.com/shop", Version: "v9.9.9"}, Deps: []*debug.Module{other, &local}},
	} {
		require.Equal(t, want, versionOf(info))
	}
	require.Equal(t, "v0.3.1", versionOf(&debug.BuildInfo{Main: ours}), "its own tests")
	require.Equal(t, "(devel)", versionOf(&debug.BuildInfo{}), "not known")
}

func TestScopesHaveAVersion(t *testing.T) {
	exporter, reader := tracetest.NewInMemoryExporter(), metric.NewManualReader()
	telemetry, err := New(WithTracerProvider(sdktrace.NewTracerProvider(sdktrace.WithSyncer(exporter))),
		WithMeterProvider(metric.NewMeterProvider(metric.WithReader(reader))))
	require.NoError(t, err)
	call := redlock.CallEvent{Context: t.Context(), Call: 1, Op: "lock", Name: "x"}
	telemetry.callStart(call)
	telemetry.callEnd(call)

	require.NotEmpty(t, version())
	require.Len(t, exporter.GetSpans(), 1)
	require.Equal(t, version(), exporter.GetSpans()[0].InstrumentationScope.Version)
	var all metricdata.ResourceMetrics
	require.NoError(t, reader.Collect(t.Context(), &all))
	require.Len(t, all.ScopeMetrics, 1)
	require.Equal(t, version(), all.ScopeMetrics[0].Scope.Version)
}
