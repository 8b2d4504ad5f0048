import Crypto
import Foundation
import Glibc
import HTTPClient
import HTTPSemantics
import LoopTesting
import Reactor
import TestSupport
import Testing

/// Tests against `nghttpd`, which run only if it is installed.
@Suite("HTTP session, HTTP/2", .timeLimit(.minutes(10)), .enabled(if: NGHTTPD.isInstalled))
struct HTTP2Tests {
    private func with(
        limits: HTTPSession.Limits = .init(), _ body: (HTTPSession, HTTPClientRequest) async throws -> Void
    ) async throws {
        let server = try await NGHTTPD()
        defer { server.stop() }
        try await withLoop { loop in
            let session = HTTPSession(on: loop, limits: limits)
            var request = HTTPClientRequest(
                method: "POST", url: server.url + "/file", headers: [HTTPField("apns-topic", "a.b.voip")],
                body: Array("{}".utf8))
            request.route.authorityFile = server.authorityFile
            try await body(session, request)
            loop.post { session.close() }
        }
    }

    @Test func `many requests share one connection`() async throws {
        var limits = HTTPSession.Limits()
        limits.connectionsPerHost = 1
        try await with(limits: limits) { session, request in
            let responses = try await withThrowingTaskGroup(of: HTTPClientResponse.self) { group in
                for _ in 0..<200 { group.addTask { try await session.response(to: request) } }
                return try await group.reduce(into: []) { $0.append($1) }
            }
            #expect(responses.count == 200)
            #expect(responses.allSatisfy { $0.status == 200 && $0.version == .http2 && $0.body == Array("text".utf8) })
            #expect(responses.count { $0.isNewConnection } == 1)
        }
    }

    @Test func `a status of failure is an answer`() async throws {
        try await with { session, request in
            var request = request
            request.url += "-that-is-missing"
            let response = try await session.response(to: request)
            #expect(response.status == 404)
            #expect(response.header("content-type")?.hasPrefix("text/html") == true)
        }
    }

    @Test func `cancelling one request leaves the connection to the others`() async throws {
        try await with { session, request in
            _ = try await session.response(to: request)
            let outcomes = Mailbox<Result<HTTPClientResponse, HTTPClientError>>()
            session.loop.post {
                let exchange = session.send(request) { outcomes.put($0) }
                exchange.cancel()
                exchange.cancel()
                session.send(request) { outcomes.put($0) }
            }
            guard case .failure(let error) = try await outcomes.next() else { return #expect(Bool(false)) }
            #expect(error.code == .cancelled)
            let response = try await outcomes.next().get()
            #expect(response.status == 200)
            #expect(!response.isNewConnection)
        }
    }

    @Test func `more requests than allowed fail at once`() async throws {
        var limits = HTTPSession.Limits()
        limits.requests = 3
        try await with(limits: limits) { session, request in
            let outcomes = Mailbox<Bool>()
            session.loop.post {
                for _ in 0..<4 { session.send(request) { outcomes.put((try? $0.get()) != nil) } }
            }
            let first = try await outcomes.next()
            #expect(!first)
            for _ in 0..<3 {
                let next = try await outcomes.next()
                #expect(next)
            }
        }
    }
}

/// A process of `nghttpd` that serves one file on a port chosen by the kernel.
final class NGHTTPD {
    let url: String
    let authorityFile: String
    private let process: pid_t
    private let folder: TemporaryFolder

    private static let candidates = ["/usr/bin/nghttpd", "/usr/sbin/nghttpd"]
    static var isInstalled: Bool { candidates.contains { FileManager.default.isExecutableFile(atPath: $0) } }

    init() async throws {
        folder = try TemporaryFolder()
        let identity = try SelfSignedCertificate(hosts: ["127.0.0.1"])
        let key = try folder.write(identity.key, to: "key")
        authorityFile = try folder.write(identity.certificate, to: "certificate")
        try folder.write(Array("text".utf8), to: "file")

        let program = Self.candidates.first { FileManager.default.isExecutableFile(atPath: $0) } ?? ""
        process = try Self.start(program, ["-a", "127.0.0.1", "-d", folder.path, "0", key, authorityFile])
        url = "https://127.0.0.1:\(try await Self.port(of: process))"
    }

    struct Failure: Error {
        let code: Int32
    }

    /// Starts a program with `posix_spawn`, because Foundation's `Process` sometimes crashes in a process with many
    /// threads.
    private static func start(_ path: String, _ arguments: [String]) throws -> pid_t {
        var actions = unsafe posix_spawn_file_actions_t()
        unsafe posix_spawn_file_actions_init(&actions)
        defer { unsafe posix_spawn_file_actions_destroy(&actions) }
        unsafe posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0)
        unsafe posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0)
        unsafe posix_spawn_file_actions_addopen(&actions, 2, "/dev/null", O_WRONLY, 0)
        var words = unsafe ([path] + arguments).map { unsafe strdup($0) } + [nil]
        defer { unsafe words.forEach { unsafe free($0) } }
        var variables: [UnsafeMutablePointer<CChar>?] = unsafe [nil]
        var child: pid_t = 0
        let code = unsafe posix_spawn(&child, path, &actions, nil, &words, &variables)
        guard code == 0 else { throw Failure(code: code) }
        return child
    }

    /// Waits until the process listens, and returns the port that the kernel has chosen for it. `nghttpd` does not
    /// print its port. The test does not choose the port itself, because another test may take it first.
    private static func port(of process: pid_t) async throws -> UInt16 {
        while true {
            var status: Int32 = 0
            try #require(unsafe waitpid(process, &status, WNOHANG) == 0)
            let folder = "/proc/\(process)/fd"
            let sockets = try FileManager.default.contentsOfDirectory(atPath: folder).compactMap {
                try? FileManager.default.destinationOfSymbolicLink(atPath: "\(folder)/\($0)")
            }
            // In /proc/PID/net/tcp, column 2 is the local address, column 4 the state (0A listens), column 10 the inode
            // (proc(5)).
            for line in try String(contentsOfFile: "/proc/\(process)/net/tcp", encoding: .utf8).split(separator: "\n") {
                let columns = line.split(separator: " ")
                guard columns.count >= 10, columns[3] == "0A", sockets.contains("socket:[\(columns[9])]") else {
                    continue
                }
                return try #require(columns[1].split(separator: ":").last.flatMap { UInt16($0, radix: 16) })
            }
            await Task.yield()
        }
    }

    func stop() {
        // The test ends `nghttpd` by SIGKILL, because `nghttpd` inherits a signal mask that blocks SIGTERM.
        kill(process, SIGKILL)
        var status: Int32 = 0
        while unsafe waitpid(process, &status, 0) < 0, errno == EINTR {}
    }
}
