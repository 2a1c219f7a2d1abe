package main

import (
	"runtime"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestVersionIsThatOfTheBuild(t *testing.T) {
	var out, log strings.Builder
	assert.Zero(t, execute([]string{"--version"}, &out, &log))
	assert.Regexp(t, `^redlock \S+ .*`+runtime.Version()+`\n$`, out.String())
	flag := out.String()
	out.Reset()
	assert.Zero(t, execute([]string{"version"}, &out, &log))
	assert.Equal(t, flag, out.String(), "redlock version prints the same")
	assert.Equal(t, codeUsage, execute([]string{"version", "1"}, &out, &log))
	assert.Equal(t, "v1.2.3 commit 0123456789ab (modified) go1.26", versionOf(&debug.BuildInfo{
		GoVersion: "go1.26", Main: debug.Module{Version: "v1.2.3"},
		Settings: []debug.BuildSetting{{Key: "vcs.revision", Value: "0123456789abcdef"}, {Key: "vcs.modified", Value: "true"}},
	}))
	assert.Equal(t, "(devel) go1.26", versionOf(&debug.BuildInfo{GoVersion: "go1.26"}))
}
