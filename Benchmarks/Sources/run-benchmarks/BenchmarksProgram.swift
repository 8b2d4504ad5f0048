import Benchmarks
import CAllocationCount
import Foundation

@main
struct BenchmarksProgram {
    static func main() {
        let words = Array(CommandLine.arguments.dropFirst())
        if words.contains("--help") { return print(BenchmarkOptions.help, terminator: "") }
        do {
            if words.first == Relay.command, words.count == 2, let port = UInt16(words[1]) {
                return try Relay.run(pushPort: port) { endpoint in
                    FileHandle.standardError.write(Data("listener=udp:\(endpoint)\n".utf8))
                }
            }
            let program = Bundle.main.executablePath ?? CommandLine.arguments[0]
            let options = try BenchmarkOptions(words, program: program)
            let report = try BenchmarkRun.run(options) { allocation_count() }
            print(options.isJSON ? try report.jsonLines() : report.table, terminator: "")
            if !report.complaints.isEmpty { exit(1) }
        } catch {
            FileHandle.standardError.write(Data("benchmarks: \(error)\n".utf8))
            exit(1)
        }
    }
}
