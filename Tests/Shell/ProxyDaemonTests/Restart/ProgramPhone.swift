import Addressing
import Foundation
import LoopTesting
import Reactor
import TestSupport

/// A phone that talks to the real program over UDP. The phone sends one request at a time, and waits for the answer
/// before it sends the next.
struct ProgramPhone: Sendable {
    /// The daemon's messages. The answers to the phone; an empty text ends the waiting, because a UDP client does not
    /// see the end of the daemon.
    let answers: Mailbox<String>
    private let daemon: Endpoint
    private let loop: EventLoop
    private let socket: Held

    /// Owns the socket of the phone, so that the socket stays open. The type is `@unchecked Sendable`, because only the
    /// loop's thread uses the socket.
    private struct Held: @unchecked Sendable {
        let socket: UDPSocket
    }

    /// Opens a phone for the duration of the body.
    static func with(
        _ daemon: DaemonProgram, answers: Mailbox<String> = Mailbox(), _ body: (ProgramPhone) async throws -> Void
    ) async throws {
        try await withLoop { loop in
            let socket = try await Bench(loop).run { bench in
                let socket = try UDPSocket(boundTo: Endpoint(.loopbackV4, 0), on: bench.loop)
                try socket.receive { batch in
                    for index in 0..<batch.count {
                        answers.put(
                            batch.withBytes(at: index) { bytes in
                                unsafe bytes.withUnsafeBufferPointer { unsafe String(decoding: $0, as: UTF8.self) }
                            })
                    }
                }
                return Held(socket: socket)
            }
            try await body(ProgramPhone(answers: answers, daemon: daemon.sip, loop: loop, socket: socket))
            await Bench(loop).run { _ in socket.socket.close() }
        }
    }

    func register(_ user: String, push token: String? = nil) async throws -> String {
        let parameters = token.map { ";pn-provider=acrobits;pn-param=app;pn-prid=\($0)" } ?? ""
        return try await send { local in
            SIPText.register(
                user: user, from: local, callID: UUID().uuidString, cseq: 1, branch: UUID().uuidString,
                contact: "<sip:\(user)@\(local)\(parameters)>")
        }
    }

    func call(_ user: String, _ callID: String) async throws -> String {
        try await send { local in
            SIPText.invite(to: user, from: "100", at: local, callID: callID, branch: UUID().uuidString)
        }
    }

    private func send(_ text: @Sendable (Endpoint) -> [UInt8]) async throws -> String {
        await Bench(loop).run { _ in socket.socket.queue(text(socket.socket.local), to: daemon) }
        return try await answers.next()
    }
}
