import Addressing
import Reactor

/// The phones' sockets, and the way from a user to his phone's socket. Phones that are woken have one each: a flow that shows
/// life wakes all that is registered on it. All others share a few.
final class PhoneSockets {
    private let sockets: [UDPSocket]
    private let registers: [MessageTemplate]
    private let slowRegisters: [MessageTemplate]
    private let isSlow: (Int) -> Bool
    private let daemon: Endpoint

    /// The first users, each of whom has the socket of his number; behind them come the sockets of the others.
    let alone: Int

    private static let shared = 4
    /// What a phone of its own has on its way at a time is little.
    private static let ownQueue = 16
    /// Descriptors for all but the phones.
    private static let reserve = 2000

    /// `received` gets each datagram with the number of its socket; users who are slow belong to the slow app. The first
    /// users, as many as `alone` says, have sockets of their own, if the system allows so many.
    init(
        daemon: Endpoint, alone wished: Int, isSlow: @escaping (Int) -> Bool, on loop: EventLoop,
        received: @escaping (Span<UInt8>, Int) -> Void,
        batchEnded: @escaping () -> Void
    ) throws(BenchmarkError) {
        self.daemon = daemon
        self.isSlow = isSlow
        let alone = wished == 0 ? 0 : min(wished, max(ProcessDescriptors.raiseLimit() - Self.reserve, 0))
        self.alone = alone
        do {
            sockets = try (0..<alone + Self.shared).map { number in
                try UDPSocket(
                    boundTo: Endpoint(.loopbackV4, 0), on: loop, datagramLimit: 4096,
                    queueLimit: number < alone ? Self.ownQueue : UDPSocket.usualQueueLimit)
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
        isSlow(user) ? slowRegisters[number(of: user)] : registers[number(of: user)]
    }

    /// Neighbours among those who share have the same socket, so that a batch leaves by one call.
    func number(of user: Int) -> Int { user < alone ? user : alone + user / 32 % Self.shared }

    func local(_ number: Int) -> Endpoint { sockets[number].local }

    func send(_ bytes: [UInt8], from number: Int) { sockets[number].queue(bytes, to: daemon) }

    func close() { for socket in sockets { socket.close() } }
}
