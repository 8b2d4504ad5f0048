import CEvent
import Glibc

/// The service manager that started this process: systemd or a compatible program (sd_notify(3)).
///
/// Each message to the service manager is one datagram on a socket that never blocks, and may be lost.
package final class ServiceManager: Sendable {
    private let address: [UInt8]
    private let socket: Int32
    /// The interval at which the manager expects watchdog messages; `nil` if the manager has no watchdog for the
    /// service.
    package let watchdogInterval: Duration?

    /// Finds the service manager; `nil` if none asks for notifications.
    ///
    /// - Parameters:
    ///   - environment: the variables of the process.
    ///   - process: the id of the process.
    package init?(environment: [String: String], process: Int32) {
        // The environment variable NOTIFY_SOCKET contains a socket's path, or "@" and a name in the abstract namespace.
        guard let name = environment["NOTIFY_SOCKET"], let first = name.utf8.first,
            first == UInt8(ascii: "/") || first == UInt8(ascii: "@"), name.utf8.count > 1,
            let socket = System.notifySocket()
        else { return nil }
        address = Array(name.utf8)
        self.socket = socket.release()
        let meant = environment["WATCHDOG_PID"].flatMap { Int32($0) } ?? process
        let microseconds = environment["WATCHDOG_USEC"].flatMap { Int64($0) } ?? 0
        watchdogInterval = meant == process && microseconds > 0 ? .microseconds(microseconds) : nil
    }

    deinit { System.close(socket) }

    /// Sends a message to the manager, such as `READY=1` (sd_notify(3)).
    package func tell(_ words: String...) { send(words, passing: nil) }

    /// Passes a socket to the manager for the next run of this program. The manager must ignore errors of the socket.
    /// An unreachable phone, for example, causes such an error.
    package func keep(_ descriptor: Int32, as name: String) {
        send(["FDSTORE=1", "FDNAME=\(name)", "FDPOLL=0"], passing: descriptor)
    }

    /// Asks the manager to drop a socket that the daemon's earlier run passed to the manager.
    package func drop(_ name: String) { tell("FDSTOREREMOVE=1", "FDNAME=\(name)") }

    private func send(_ words: [String], passing descriptor: Int32?) {
        let text = Array(words.joined(separator: "\n").utf8)
        System.notify(socket, at: address, text.span, passing: descriptor)
    }
}

extension System {
    fileprivate static func notifySocket() -> Descriptor? {
        let kinds = datagram | Int32(SOCK_CLOEXEC.rawValue) | Int32(SOCK_NONBLOCK.rawValue)
        let number = Glibc.socket(AF_UNIX, kinds, 0)
        return number < 0 ? nil : Descriptor(number)
    }

    fileprivate static func notify(
        _ socket: Int32, at address: [UInt8], _ text: Span<UInt8>, passing descriptor: Int32?
    ) {
        unsafe address.withUnsafeBufferPointer { address in
            unsafe text.withUnsafeBufferPointer { text in
                // A failure to notify is ignored, because the service manager has then ended or is busy.
                _ = unsafe notify_manager(
                    socket, address.baseAddress, address.count, text.baseAddress, text.count, descriptor ?? -1)
            }
        }
    }
}
