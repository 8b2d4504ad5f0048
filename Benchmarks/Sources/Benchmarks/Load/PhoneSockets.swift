import Addressing
import Reactor

/// The sockets that all phones share, and the way from a user to his phone's socket.
final class PhoneSockets {
    private let sockets: [UDPSocket]
    private let registers: [MessageTemplate]
    private let slowRegisters: [MessageTemplate]
    private let isSlow: (Int) -> Bool
    private let daemon: Endpoint

    private static let count = 4

    /// `received` gets each datagram with the number of its socket; users who are slow belong to the slow app.
    init(
        daemon: Endpoint, isSlow: @escaping (Int) -> Bool, on loop: EventLoop,
        received: @escaping (Span<UInt8>, Int) -> Void,
        batchEnded: @escaping () -> Void
    ) throws(BenchmarkError) {
        self.daemon = daemon
        self.isSlow = isSlow
        do {
            sockets = try (0..<Self.count).map { _ in
                try UDPSocket(boundTo: Endpoint(.loopbackV4, 0), on: loop, datagramLimit: 4096)
            }
            registers = sockets.map { MessageTexts.register(from: $0.local) }
            slowRegisters = sockets.map { MessageTexts.register(from: $0.local, app: MessageTexts.slowApp) }
            for (number, socket) in sockets.enumerated() {
                try socket.receive { batch in
                    for index in 0..<batch.count { batch.withBytes(at: index) { received($0, number) } }
                    batchEnded()
                }
            }
        } catch {
            throw BenchmarkError("no socket: \(error)")
        }
    }

    /// The REGISTER of a user's phone.
    func register(of user: Int) -> MessageTemplate {
        isSlow(user) ? slowRegisters[Self.number(of: user)] : registers[Self.number(of: user)]
    }

    /// Neighbours share a socket, so that a batch leaves by one call.
    static func number(of user: Int) -> Int { user / 32 % count }

    func local(_ number: Int) -> Endpoint { sockets[number].local }

    func send(_ bytes: [UInt8], from number: Int) { sockets[number].queue(bytes, to: daemon) }

    func close() { for socket in sockets { socket.close() } }
}
