import Crypto
import Dispatch
import Glibc
import Testing

@testable import Reactor

@Suite("Threads of handshakes", .timeLimit(.minutes(10)))
struct HandshakePoolTests {
    @Test(arguments: [(1, 1), (2, 1), (3, 2), (16, 15)])
    func `one processor is left to the loop`(processors: Int, threads: Int) {
        #expect(HandshakePool.threadLimit(processors: processors) == threads)
    }

    /// Handshakes with clients that send no TLS, so that each handshake fails at its first step.
    private final class Bench {
        let pool: HandshakePool
        private let context: TLSContext
        private var handshakes: [PendingHandshake] = []
        private var clients: [Int32] = []

        init(threadLimit: Int) throws {
            pool = try HandshakePool(threadLimit: threadLimit)
            let identity = try SelfSignedCertificate(hosts: ["127.0.0.1"])
            context = try TLSContext.server(certificate: .bytes(identity.certificate), key: .bytes(identity.key))
        }

        deinit { for client in clients { close(client) } }

        /// Begins a handshake whose client sends the bytes.
        func begin(_ bytes: [UInt8], ended: @escaping @Sendable () -> Void) throws {
            var ends: [Int32] = [0, 0]
            try #require(unsafe socketpair(AF_UNIX, Int32(SOCK_STREAM.rawValue), 0, &ends) == 0)
            try #require(fcntl(ends[0], F_SETFL, O_NONBLOCK) == 0)
            _ = unsafe write(ends[1], bytes, bytes.count)
            clients.append(ends[1])
            let number = UInt64(handshakes.count)
            handshakes.append(
                pool.begin(number, Descriptor(ends[0]), try context.makeServerSession()) { _ in ended() })
        }
    }

    private static let nonsense = Array("OPTIONS sip:a SIP/2.0\r\n\r\n".utf8)

    @Test func `a handshake does not wait for a busy thread, and no thread starts without need`() throws {
        let bench = try Bench(threadLimit: 2)
        let (isBusy, isFree, isDone) = (
            DispatchSemaphore(value: 0), DispatchSemaphore(value: 0), DispatchSemaphore(value: 0)
        )
        try bench.begin(Self.nonsense) {
            isBusy.signal()
            isFree.wait()
        }
        isBusy.wait()
        // The next handshake waits for the only thread, and so the one after it gets a thread of its own.
        try bench.begin(Self.nonsense) { isDone.signal() }
        #expect(bench.pool.threadCount == 1)
        try bench.begin(Self.nonsense) { isDone.signal() }
        #expect(bench.pool.threadCount == 2)
        isDone.wait()
        isFree.signal()
        isDone.wait()
        try bench.begin(Self.nonsense) { isDone.signal() }
        isDone.wait()
        #expect(bench.pool.threadCount == 2)
    }

    @Test func `silent clients keep no thread busy`() throws {
        let bench = try Bench(threadLimit: 1)
        let isDone = DispatchSemaphore(value: 0)
        for _ in 0..<100 { try bench.begin([0x16, 3, 1]) {} }
        try bench.begin(Self.nonsense) { isDone.signal() }
        isDone.wait()
        #expect(bench.pool.threadCount == 1)
    }

    @Test func `the backlog is that of all threads together, and tells when there is room`() throws {
        let bench = try Bench(threadLimit: 2)
        let (isBusy, isFree, hasRoom) = (
            DispatchSemaphore(value: 0), DispatchSemaphore(value: 0), DispatchSemaphore(value: 0)
        )
        try bench.begin(Self.nonsense) {
            isBusy.signal()
            isFree.wait()
        }
        isBusy.wait()
        try bench.begin(Self.nonsense) {}
        try bench.begin(Self.nonsense) {
            isBusy.signal()
            isFree.wait()
        }
        isBusy.wait()
        // One handshake waits for the first thread, and both threads are busy.
        for _ in 0..<62 { try bench.begin(Self.nonsense) {} }
        #expect(bench.pool.hasRoom)
        try bench.begin(Self.nonsense) {}
        #expect(!bench.pool.hasRoom)
        bench.pool.whenThereIsRoom { hasRoom.signal() }
        #expect(hasRoom.wait(timeout: .now()) == .timedOut)
        isFree.signal()
        isFree.signal()
        hasRoom.wait()
        #expect(bench.pool.hasRoom)
    }
}
