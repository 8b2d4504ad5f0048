import Addressing
import Reactor

/// The sockets of the simulated phones. A phone to be woken needs its own socket, because any REGISTER on a socket
/// releases the calls of all its phones. All other phones share a few sockets.
final class PhoneSockets {
    private let sockets: [UDPSocket]
    private let registers: [MessageTemplate]
    private let slowRegisters: [MessageTemplate]
    private let isSlow: (Int) -> Bool
    private let daemon: Endpoint

    /// The number of users whose phones have their own sockets. A phone's own socket has the user's number, and shared
    /// sockets have higher numbers.
    let alone: Int

    private static let shared = 4
    /// The queue limit of a socket with only one phone.
    private static let ownQueue = 16
    /// The number of file descriptors that are reserved for other purposes.
    private static let reserve = 2000

    /// Opens the sockets; `received` is called with each datagram and the number of its socket. Users for whom `isSlow`
    /// is true have the app with the slow push provider. The first `alone` users have their own sockets, if the system
    /// allows so many.
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

    /// Returns the REGISTER of a user's phone.
    func register(of user: Int) -> MessageTemplate {
        isSlow(user) ? slowRegisters[number(of: user)] : registers[number(of: user)]
    }

    /// Returns the number of the user's socket. Users with adjacent numbers share a socket, so that one system call
    /// sends their messages.
    func number(of user: Int) -> Int { user < alone ? user : alone + user / 32 % Self.shared }

    func local(_ number: Int) -> Endpoint { sockets[number].local }

    func send(_ bytes: [UInt8], from number: Int) { sockets[number].queue(bytes, to: daemon) }

    func close() { for socket in sockets { socket.close() } }
}
