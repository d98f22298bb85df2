package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// Servers come from Debian's packages by way of apt, with lists, cache and an empty status file of its own: for it nothing is
// installed, so that it fetches a package with all that it depends on, the C library included. It checks the signature of
// each suite and the digest of each package. dpkg-deb unpacks them into a tree, and the server runs on the loader and the
// libraries of that tree, so that a newer release's server runs on an older system, and nothing of the system is touched.
//
// The mirror is the one from which apt has this release; suites are named, hosts never.

// mirror is where apt finds Debian, and where we keep what comes from there.
type mirror struct{ uri, cache string }

// openMirror asks apt.
func openMirror(ctx context.Context) (*mirror, error) {
	release, err := codename("/etc/os-release")
	if err != nil {
		return nil, err
	}
	out, err := exec.CommandContext(ctx, "apt-get", "indextargets", "--format", "$(RELEASE) $(REPO_URI)", "Created-By: Packages").Output()
	if err != nil {
		return nil, fmt.Errorf("ask apt for its mirror: %w", err)
	}
	uri := mirrorOf(release, string(out))
	if uri == "" {
		return nil, fmt.Errorf("apt knows no mirror of %s", release)
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return nil, err
	}
	return &mirror{uri, filepath.Join(cache, "rlctl", "matrix")}, nil
}

// codename is that of this release of Debian.
func codename(file string) (string, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	fields := map[string]string{}
	for line := range strings.Lines(string(text)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		fields[name] = strings.Trim(value, `"`)
	}
	if fields["ID"] != "debian" || fields["VERSION_CODENAME"] == "" {
		return "", errors.New("this is no release of Debian, whose packages are wanted")
	}
	return fields["VERSION_CODENAME"], nil
}

// mirrorOf finds the place of a release in lines of "RELEASE URI".
func mirrorOf(release, lines string) string {
	for line := range strings.Lines(lines) {
		if name, uri, ok := strings.Cut(strings.TrimSpace(line), " "); ok && name == release {
			return uri
		}
	}
	return ""
}

// shop is one suite, as apt is told of it.
type shop struct {
	suite string
	conf  string // apt's configuration
	dir   string // archives and tree of one server
}

// keyring is whose signatures count.
const keyring = "/usr/share/keyrings/debian-archive-keyring.gpg"

// open writes apt's configuration for one server of one suite. Lists are shared by the servers of a suite.
func (m *mirror) open(c candidate) (shop, error) {
	suite := filepath.Join(m.cache, c.suite)
	s := shop{c.suite, filepath.Join(suite, c.server, "apt.conf"), filepath.Join(suite, c.server)}
	for _, dir := range []string{filepath.Join(suite, "lists", "partial"), filepath.Join(s.dir, "archives", "partial")} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return s, err
		}
	}
	for name, text := range map[string]string{
		filepath.Join(suite, "sources.list"): m.sources(c.suite), filepath.Join(suite, "status"): "", s.conf: aptConf(suite, s.dir),
	} {
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			return s, err
		}
	}
	return s, nil
}

// sources are the suite, and what it builds upon.
func (m *mirror) sources(suite string) string {
	trust := ""
	if _, err := os.Stat(keyring); err == nil {
		trust = " [signed-by=" + keyring + "]"
	}
	text := ""
	for _, name := range slices.Compact([]string{strings.TrimSuffix(suite, "-backports"), suite}) {
		text += fmt.Sprintf("deb%s %s %s main\n", trust, m.uri, name)
	}
	return text
}

// aptConf takes from the system's configuration how to reach the mirror, and nothing that happens afterwards.
func aptConf(suite, dir string) string {
	var b strings.Builder
	for _, hook := range []string{"Pre-Invoke", "Post-Invoke", "Post-Invoke-Success"} {
		fmt.Fprintf(&b, "#clear APT::Update::%s;\n", hook)
	}
	for _, setting := range [][2]string{
		{"Dir::State::lists", filepath.Join(suite, "lists")}, {"Dir::State::status", filepath.Join(suite, "status")},
		{"Dir::Cache", dir}, {"Dir::Cache::archives", filepath.Join(dir, "archives")},
		{"Dir::Etc::sourcelist", filepath.Join(suite, "sources.list")}, {"Dir::Etc::sourceparts", "/dev/null"},
		{"Dir::Etc::preferences", "/dev/null"}, {"Dir::Etc::preferencesparts", "/dev/null"},
		{"Acquire::Languages", "none"}, {"APT::Sandbox::User", "root"}, {"APT::Install-Recommends", "false"}, {"APT::Get::Assume-Yes", "true"},
	} {
		fmt.Fprintf(&b, "%s %q;\n", setting[0], setting[1])
	}
	return b.String()
}

// apt runs apt-get, and gives its last words where that fails.
func (s shop) apt(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "apt-get", append([]string{"-c", s.conf, "-q"}, args...)...)
	cmd.Env = append(os.Environ(), "LC_ALL=C", "DEBIAN_FRONTEND=noninteractive")
	out, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("apt-get %s: %w: %s", args[0], err, complaint(string(out)))
	}
	return string(out), nil
}

var host = regexp.MustCompile(`https?://\S+`)

// complaint is the first error that apt names, without the mirror's name.
func complaint(said string) string {
	for line := range strings.Lines(said) {
		if text, ok := strings.CutPrefix(line, "E: "); ok {
			return strings.TrimSpace(host.ReplaceAllString(text, "the mirror"))
		}
	}
	return "no reason told"
}

// fetch brings a package of the suite and all that it depends on, unpacks them into a new tree, and returns that with the
// version of the package.
func (s shop) fetch(ctx context.Context, name string) (tree, version string, err error) {
	if _, err := s.apt(ctx, "update"); err != nil {
		return "", "", err
	}
	plan, err := s.apt(ctx, "install", "--simulate", "-t", s.suite, name)
	if err != nil {
		return "", "", err
	}
	packages := planned(plan)
	if _, err := s.apt(ctx, "install", "--download-only", "-t", s.suite, name); err != nil {
		return "", "", err
	}
	tree = filepath.Join(s.dir, "tree")
	if err := os.RemoveAll(tree); err != nil {
		return "", "", err
	}
	for name, version := range packages {
		files, err := filepath.Glob(filepath.Join(s.dir, "archives", name+"_"+strings.ReplaceAll(version, ":", "%3a")+"_*.deb"))
		if err != nil || len(files) != 1 {
			return "", "", fmt.Errorf("%s %s was fetched and is not there", name, version)
		}
		if said, err := exec.CommandContext(ctx, "dpkg-deb", "-x", files[0], tree).CombinedOutput(); err != nil {
			return "", "", fmt.Errorf("unpack %s: %w: %s", name, err, said)
		}
	}
	return tree, packages[name], nil
}

var installs = regexp.MustCompile(`(?m)^Inst (\S+) \((\S+) `)

// planned are the versions of the packages that apt would install.
func planned(plan string) map[string]string {
	all := map[string]string{}
	for _, m := range installs.FindAllStringSubmatch(plan, -1) {
		all[m[1]] = m[2]
	}
	return all
}
