import Foundation

/// The command-line options of the benchmarks.
package struct BenchmarkOptions: Sendable {
    package enum Name: String, CaseIterable, Sendable {
        case register, hold, slow, api, tls, idle, storm, overload, memory, allocations, instructions, push, upstream,
            days
    }

    package var names: [Name] = []
    package var isJSON = false
    /// The paths of the benchmark program and of the measured daemon.
    package let program: String
    package var daemon: String
    package var limits: String?
    /// The number of REGISTERs of each kind (new contacts, refreshes) in a round, and the maximum number of unanswered
    /// REGISTERs.
    package var requests = 30_000
    package var window = 256
    package var rounds = 3
    /// The number of held calls, the rate at which they begin, and the low rate for measurements of latency.
    package var calls = 10_000
    package var bulkRate = 2000.0
    package var lowRate = 100.0
    package var bindings = 300_000
    /// The number of users that the daemon registers at a PBX.
    package var users = 100_000
    /// The number of connections to the HTTP API, each of which has one unanswered report at a time.
    package var connections = 64
    /// The number of phones with their own connections.
    package var phones = 5000
    /// The URL of the pushes, the file with its certificate authority, and the number of pushes in a round.
    package var url: String?
    package var authority: String?
    package var pushes = 100_000
    /// The seeds of the simulated days.
    package var seeds: Range<UInt64> = 0..<1000
    package var tellsStory = false
    /// The number of nodes of a simulated day.
    package var nodes = 1

    /// Parses the command line.
    ///
    /// - Parameters:
    ///   - words: the command line without the program's name.
    ///   - program: the path of the program, whose folder also contains the daemon.
    /// - Throws: ``BenchmarkError`` that names an unknown argument.
    package init(_ words: [String], program: String) throws(BenchmarkError) {
        self.program = program
        daemon = URL(filePath: program).deletingLastPathComponent().appending(path: "sippushd").path
        var rest = words[...]
        while let word = rest.popFirst() {
            switch word {
            case "--json": isJSON = true
            case "--daemon": daemon = try Self.value(word, &rest)
            case "--limits": limits = try Self.value(word, &rest)
            case "--requests": requests = try Self.number(word, &rest)
            case "--window": window = try Self.number(word, &rest)
            case "--rounds": rounds = try Self.number(word, &rest)
            case "--calls": calls = try Self.number(word, &rest)
            case "--rate": bulkRate = Double(try Self.number(word, &rest))
            case "--low-rate": lowRate = Double(try Self.number(word, &rest))
            case "--bindings": bindings = try Self.number(word, &rest)
            case "--users": users = try Self.number(word, &rest)
            case "--connections": connections = try Self.number(word, &rest)
            case "--phones": phones = try Self.number(word, &rest)
            case "--url": url = try Self.value(word, &rest)
            case "--authority": authority = try Self.value(word, &rest)
            case "--pushes": pushes = try Self.number(word, &rest)
            case "--story": tellsStory = true
            case "--nodes": nodes = try Self.number(word, &rest)
            case "--seeds":
                let text = try Self.value(word, &rest)
                guard let seeds = Self.seeds(text) else {
                    throw BenchmarkError("--seeds needs two numbers like 0-999, the smaller one first, not \(text)")
                }
                self.seeds = seeds
            default:
                guard let name = Name(rawValue: word) else {
                    throw BenchmarkError("neither an option nor a benchmark: \(word); see --help")
                }
                names.append(name)
            }
        }
        let limited: Set<Name> = [.allocations, .instructions, .idle]
        if limits != nil, limited.intersection(names).count > 1 {
            throw BenchmarkError(
                "--limits is for allocations, for instructions or for idle: each has a file of its own")
        }
        // Without names, four benchmarks are left out: pushes need a receiver, instructions need valgrind, and two run
        // only in this process.
        if names.isEmpty {
            names = Name.allCases.filter {
                $0 != .days && $0 != .upstream && $0 != .instructions && ($0 != .push || url != nil)
            }
        }
    }

    package static let help = """
        Usage: etc/benchmarks [NAME ...] [options]

        Measures the daemon on this machine and prints the results. Without names, everything is measured, which takes
        some minutes. The daemon runs as a process of its own, with a store in a temporary folder (TMPDIR). Its load comes
        from this program over loopback UDP, and uses a part of the same machine.

        Names:
          register     REGISTERs per second, new ones (on disk before the 200) and refreshes, and the daemon's CPU time
          hold         calls that wait at the same time, the speed of their pushes, and the time until woken phones get
                       their calls
          slow         pushes at 1000 calls a second, the daemon's delay compared with a plain relay of the same pushes, and
                       pushes beside an app whose provider takes 5 s to answer
          api          token reports over HTTP per second, on disk before the 200, and their effect on calls
          tls          TLS handshakes, full and resumed, and TCP connections a second; OpenSSL's part of their CPU time;
                       REGISTERs over many TLS connections
          idle         memory per idle connection, over TCP and over TLS
          storm        the delay of calls while all phones connect at once over TLS, compared with a storm at another daemon
          overload     the share of REGISTERs and calls that is served at ten times the usual load, and the time until the
                       daemon has recovered
          memory       memory per binding and per waiting call
          allocations  heap allocations per message, within this process; the numbers do not vary
          instructions  instructions in user space for each step, counted by valgrind; they hardly vary; only if named
          push         pushes per second over one HTTP/2 connection to the server of --url, and this process's CPU time
          upstream     users who are kept registered at a PBX: REGISTERs a second, memory and CPU time of a user; within
                       this process, with simulated time; only if named
          days         simulated days, within this process: statistics of their events, and all violations of the rules;
                       only if named. Two builds print the same digest if every call had the same events in both

        Options:
          --requests N    register, tls: REGISTERs of each kind in a round (default 30000)
          --window N      register, tls: REGISTERs that wait for their responses at the same time (default 256)
          --rounds N      register, tls, storm, push: number of rounds; the median is shown (default 3)
          --calls N       hold, memory: calls that wait at the same time (default 10000); each woken phone has a socket of its
                          own, as far as the system's limit of descriptors allows
          --rate N        hold, memory: calls, then wake-ups, a second (default 2000); overload: the usual load is ten times
                          as many REGISTERs and half as many calls
          --low-rate N    hold: the rate of a second, slower measurement (default 100)
          --bindings N    memory: registered contacts (default 300000)
          --users N       upstream: users (default 100000)
          --connections N  api: connections, each with one report at a time (default 64)
          --phones N      tls, idle, storm: connections that are open at once, and handshakes in a round (default 5000)
          --url URL       push: an https server that answers POST with 200; the device token is appended to the URL
          --authority FILE  push: the authority of its certificate (default: the system's)
          --pushes N      push: pushes in a round (default 100000)
          --seeds A-B     days: the first and the last seed (default 0-999)
          --nodes N       days: nodes of a cluster, which the days simulate in place of one daemon (default 1)
          --story         days: prints a line for each message and push
          --limits FILE   allocations, instructions, idle: fails if a number is larger than the file allows
          --daemon FILE   the program to measure (default: the daemon of this folder)
          --json          prints lines of JSON instead of a table

        The status is 1 if a call was lost, a limit is exceeded, or a day violates a rule.

        """

    private static func value(_ option: String, _ rest: inout ArraySlice<String>) throws(BenchmarkError) -> String {
        guard let value = rest.popFirst() else { throw BenchmarkError("\(option) needs a value; see --help") }
        return value
    }

    private static func seeds(_ text: String) -> Range<UInt64>? {
        let ends = text.split(separator: "-", omittingEmptySubsequences: false).map { UInt64($0) }
        guard ends.count == 2, let first = ends[0], let last = ends[1], first <= last, last < .max else { return nil }
        return first..<last + 1
    }

    private static func number(_ option: String, _ rest: inout ArraySlice<String>) throws(BenchmarkError) -> Int {
        let text = try value(option, &rest)
        guard let number = Int(text), (1...10_000_000).contains(number) else {
            throw BenchmarkError("\(option) needs a number from 1 to 10000000, not \(text)")
        }
        return number
    }
}
