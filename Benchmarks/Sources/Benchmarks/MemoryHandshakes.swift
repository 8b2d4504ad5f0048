import Crypto
import Glibc
import Timekeeping

/// TLS handshakes in memory, between a server and a client on one thread.
///
/// The processor time of the server's side is what OpenSSL alone needs on this machine. A daemon also needs time for
/// its sockets and threads.
package final class MemoryHandshakes {
    private let server: TLSContext
    private let client: TLSContext
    private let serverRecords = TLSRecords()
    private let clientRecords = TLSRecords()
    /// The latest session of a full handshake, whose ticket later clients may use.
    private var earlier: TLSSession?

    private static let ping = Array("\r\n\r\n".utf8)
    private static let pong = Array("\r\n".utf8)

    /// Creates the TLS contexts. The server has a P-256 key and seals session tickets, like the daemon.
    package init() throws(BenchmarkError) {
        do {
            let identity = try SelfSignedCertificate(hosts: ["127.0.0.1"])
            server = try TLSContext.server(
                identities: [TLSIdentity(certificate: .bytes(identity.certificate), key: .bytes(identity.key))],
                protocols: ["sip/2"], tickets: TicketKeys())
            client = try TLSContext.client(verifiesPeer: false)
        } catch {
            throw BenchmarkError("no TLS in memory: \(error)")
        }
    }

    package struct Result: Sendable {
        /// The processor time of the server's side of all handshakes.
        package var time: Duration = .zero
        package var resumed = 0
    }

    /// Makes handshakes one after the other. Each handshake ends when the client has the answer to its keep-alive, and
    /// the server has released its session.
    package func run(_ count: Int, resumes: Bool = false) throws(BenchmarkError) -> Result {
        var result = Result()
        for _ in 0..<count {
            do throws(TLSError) {
                result.time += try shakeHands(resumes: resumes, &result.resumed)
            } catch {
                throw BenchmarkError("a handshake in memory failed: \(error)")
            }
        }
        return result
    }

    private func shakeHands(resumes: Bool, _ resumed: inout Int) throws(TLSError) -> Duration {
        let phone = try client.makeClientSession(host: "127.0.0.1")
        if resumes, let earlier { try phone.resume(earlier) }
        guard phone.beginInMemory() else { throw .library("no memory") }
        _ = phone.shakeHands(with: clientRecords)
        let hello = Self.output(of: clientRecords)

        var start = Self.time()
        var session = Optional(try server.makeServerSession())
        guard session?.beginInMemory() == true else { throw .library("no memory") }
        _ = session?.open(hello.span, with: serverRecords)
        var time = Self.time() - start
        let answer = Self.output(of: serverRecords)

        _ = phone.open(answer.span, with: clientRecords)
        guard phone.hasShakenHands, phone.seal(Self.ping.span, with: clientRecords) else {
            throw .library("the client has not finished")
        }
        let finished = Self.output(of: clientRecords)

        start = Self.time()
        let count = session?.open(finished.span, with: serverRecords).count
        let isAnswered = session?.seal(Self.pong.span, with: serverRecords) == true && count == Self.ping.count
        session?.shutDown(with: serverRecords)
        // The release of the session is part of the server's work.
        session = nil
        time += Self.time() - start
        let last = Self.output(of: serverRecords)

        guard isAnswered, phone.open(last.span, with: clientRecords).count == Self.pong.count else {
            throw .library("the keep-alive was not answered")
        }
        // Without close_notify, OpenSSL would never use the ticket again.
        phone.shutDown(with: clientRecords)
        clientRecords.dropOutput()
        if phone.isResumed { resumed += 1 } else { earlier = phone }
        return time
    }

    private static func output(of records: TLSRecords) -> [UInt8] {
        var bytes: [UInt8] = []
        records.takeOutput { output in
            for index in 0..<output.count { bytes.append(output[index]) }
        }
        return bytes
    }

    /// The processor time of this thread.
    private static func time() -> Duration {
        var now = timespec()
        unsafe clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now)
        return .seconds(now.tv_sec) + .nanoseconds(now.tv_nsec)
    }
}
