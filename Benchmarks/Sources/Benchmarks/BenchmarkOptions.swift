import Foundation

/// The options of the command line.
package struct BenchmarkOptions: Sendable {
    package enum Name: String, CaseIterable, Sendable {
        case register, hold, slow, api, tls, idle, storm, overload, memory, allocations, instructions, push, days
    }

    package var names: [Name] = []
    package var isJSON = false
    /// The path of this program, and the path of the daemon under load.
    package let program: String
    package var daemon: String
    package var limits: String?
    /// The number of REGISTERs of each kind in each round, and how many of them may be unanswered at a time.
    package var requests = 30_000
    package var window = 256
    package var rounds = 3
    /// The number of calls that are held at the same time and the rate at which they begin, followed by the low rate
    /// for latencies.
    package var calls = 10_000
    package var bulkRate = 2000.0
    package var lowRate = 100.0
    package var bindings = 300_000
    /// The number of connections to the API. Each has one unanswered report at a time.
    package var connections = 64
    /// The number of phones, which all have a connection of their own.
    package var phones = 5000
    /// The destination of pushes, the file with its certificate authority, and the number of pushes in each round.
    package var url: String?
    package var authority: String?
    package var pushes = 100_000
    /// The seeds of the simulated days to play.
    package var seeds: Range<UInt64> = 0..<1000
    package var tellsStory = false

    /// Reads the command line.
    ///
    /// - Parameters:
    ///   - words: the command line without the program's name.
    ///   - program: the path of the program. The daemon is expected in the same folder.
    /// - Throws: ``BenchmarkError`` with the argument that is not understood.
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
            case "--connections": connections = try Self.number(word, &rest)
            case "--phones": phones = try Self.number(word, &rest)
            case "--url": url = try Self.value(word, &rest)
            case "--authority": authority = try Self.value(word, &rest)
            case "--pushes": pushes = try Self.number(word, &rest)
            case "--story": tellsStory = true
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
        // Three benchmarks are left out by default: pushes need a receiver, counting instructions needs valgrind, and
        // simulated days measure nothing.
        if names.isEmpty {
            names = Name.allCases.filter { $0 != .days && $0 != .instructions && ($0 != .push || url != nil) }
        }
    }

    package static let help = """
        Usage: etc/benchmarks [NAME ...] [options]

        Measures the daemon on this machine and prints what it found. Without names everything is measured, in some
        minutes. The daemon is a process of its own with a store in a temporary folder (TMPDIR); its load comes over
        loopback UDP from this program, which takes its share of the machine.

        Names:
          register     REGISTERs per second, first ones (on disk before the 200) and refreshes, and the daemon's CPU time
          hold         calls held at once, and how fast pushes leave and woken phones get their calls
          slow         pushes at 1000 calls a second, what the daemon adds to a relay that does nothing but send them, and
                       pushes beside an app whose provider takes 5 s to answer
          api          token reports over HTTP per second, on disk before the 200, and whether calls feel them
          tls          TLS handshakes, full and resumed, and TCP connections a second; REGISTERs over many TLS connections
          idle         memory per idle connection, by TCP and by TLS
          storm        whether calls feel it when all phones connect together by TLS, beside the same at another daemon
          overload     what is still served when ten times the usual REGISTERs or calls come, and how soon all is as before
          memory       memory per binding and per held call
          allocations  heap allocations per message, within this process; they do not vary
          instructions  what the daemon executes in user space for each step, counted by valgrind; hardly varies; only
                       when it is named
          push         pushes per second over one HTTP/2 connection to the server of --url, and this process's CPU time
          days         simulated days, within this process: what happened on them, and whatever must never happen; only
                       when it is named. The digest of two builds is the same when the same happened to every call

        Options:
          --requests N    register, tls: REGISTERs of each kind in a round (default 30000)
          --window N      register, tls: how many of them are under way (default 256)
          --rounds N      register, tls, storm, push: rounds, of which the median is shown (default 3)
          --calls N       hold, memory: calls held at once (default 10000); each phone that is woken has a socket of its own, as
                          far as the system's limit of descriptors allows
          --rate N        hold, memory: calls, then wake-ups, a second (default 2000); overload: ten times as many REGISTERs and
                          half as many calls are the usual load
          --low-rate N    hold: the same for a second look without haste (default 100)
          --bindings N    memory: contacts registered (default 300000)
          --connections N  api: connections, each with one report under way (default 64)
          --phones N      tls, idle, storm: connections that are open at once, and handshakes in a round (default 5000)
          --url URL       push: an https server that answers POST with 200; the device token is put behind it
          --authority FILE  push: the authority of its certificate (default: the system's)
          --pushes N      push: pushes in a round (default 100000)
          --seeds A-B     days: the first and the last one (default 0-999)
          --story         days: a line for each message and push, to see what happened on a day
          --limits FILE   allocations, instructions, idle: fail when there are more than the file allows
          --daemon FILE   the program to measure (default: the daemon of this folder)
          --json          lines of JSON instead of a table

        It ends with 1 when a call was lost, a limit is exceeded or a day shows what must never happen.

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
