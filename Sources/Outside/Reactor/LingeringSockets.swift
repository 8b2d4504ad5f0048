import Collections
import Timekeeping

/// The sockets of closed connections, kept open until the peer closes its side.
///
/// If a socket is closed while input is unread, the kernel resets the connection, and the peer loses the last output.
/// To keep the last output, the daemon first ends only its own side (`shutdown`), and drops input until the peer ends
/// its side.
final class LingeringSockets {
    private struct LingeringSocket {
        let watch: FileWatch
        let end: Instant
    }

    private var sockets: [UInt64: LingeringSocket] = [:]
    /// The sockets in the order in which they were added, which is also the order of their deadlines.
    private var order = Queue<UInt64>()
    private var lastNumber: UInt64 = 0
    /// The timer for the earliest deadline of a lingering socket; `nil` without sockets.
    private var timer: LoopTimer?

    /// The time after which a socket is closed although its peer has not ended its side.
    private static let patience: Duration = .seconds(2)
    /// The maximum number of lingering sockets. Lingering sockets do not count among the connections of their listener.
    private static let limit = 1000

    /// Ends the daemon's side of a connection after all output was sent. The socket is closed when the peer
    /// ends its side, or after two seconds.
    func bid(on socket: consuming Descriptor, of loop: EventLoop) {
        System.endOutput(socket.number)
        guard sockets.count < Self.limit else { return }
        lastNumber += 1
        let (number, descriptor) = (lastNumber, socket.number)
        // Timer and watch have the priority of connections, so that a peer that sends endlessly does not delay other
        // work.
        if timer == nil { timer = try? LoopTimer(on: loop, turn: .connections) { [unowned self] in timeIsUp() } }
        let watch = try? FileWatch(owning: socket, on: loop, turn: .connections, until: timer) { [unowned self] _ in
            drop(number, descriptor, loop)
        }
        guard let watch, (try? watch.watch(for: .read)) != nil else { return armTimer() }
        sockets[number] = LingeringSocket(watch: watch, end: SystemClock.now + Self.patience)
        order.append(number)
        armTimer()
    }

    private func drop(_ number: UInt64, _ descriptor: Int32, _ loop: EventLoop) {
        let room = unsafe loop.streams.room(upTo: StreamShare.size)
        do throws(SystemError) {
            guard let count = unsafe try System.receive(descriptor, into: room) else { return }
            if count == 0 { ended(number) }
        } catch {
            ended(number)
        }
    }

    private func ended(_ number: UInt64) {
        sockets[number] = nil
        armTimer()
    }

    private func timeIsUp() {
        let now = SystemClock.now
        while let number = order.first, sockets[number].map({ $0.end <= now }) ?? true {
            _ = order.popFirst()
            sockets[number] = nil
        }
        armTimer()
    }

    private func armTimer() {
        while let number = order.first, sockets[number] == nil { _ = order.popFirst() }
        if let next = order.first.flatMap({ sockets[$0] }) { timer?.arm(at: next.end) } else { timer = nil }
    }
}
