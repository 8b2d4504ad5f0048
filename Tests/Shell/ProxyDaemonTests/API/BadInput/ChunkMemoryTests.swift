import Glibc
import LoopTesting
import StoreTesting
import Testing

/// Tests that a body of many small chunks uses no more memory than another body (threat T14).
@Suite("Memory of small chunks", .timeLimit(.minutes(10)))
struct ChunkMemoryTests {
    /// Whether the test runs under a sanitizer, which does not return freed memory to the system.
    private static var isSanitized: Bool {
        unsafe dlsym(nil, "__asan_init") != nil || dlsym(nil, "__tsan_init") != nil
    }

    private static let limit = 8 << 10

    /// Makes a request of 16 MiB whose body consists mostly of chunks of one byte.
    private static func request(_ end: String) -> [UInt8] {
        let head = "POST /v1/push-tokens HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
        // The array is doubled repeatedly, because appending single chunks would take so long that it delays other
        // tests.
        var chunks = Array("1\r\nx\r\n".utf8)
        let size = (16 << 20) / chunks.count * chunks.count
        while chunks.count < size { chunks += chunks }
        return Array(head.utf8) + chunks[..<size] + end.utf8
    }

    @Test(.disabled(if: isSanitized), arguments: [2])
    func `16 MiB of one-byte chunks take less than 8`(connections: Int) async throws {
        let folder = try StoreFolder()
        try await DaemonProgram.with(settings: DaemonProgram.settings(folder), in: folder) { program in
            // The first request makes the daemon allocate memory that it needs only once.
            _ = try await TCPClient.answer(
                to: Array("GET /healthz HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n".utf8), from: program.api)
            let before = try program.memory()
            let request = Self.request("0\r\n\r\n")
            try await withThrowingTaskGroup(of: String.self) { group in
                for _ in 0..<connections {
                    group.addTask { try await TCPClient.answer(to: request, from: program.api) }
                }
                for try await answer in group { #expect(RunningDaemon.statuses(answer) == [413]) }
            }
            let after = try program.memory()
            #expect(after.now - before.now <= Self.limit, "\(before), \(after)")
            #expect(after.peak - before.peak <= Self.limit, "\(before), \(after)")
        }
    }
}
