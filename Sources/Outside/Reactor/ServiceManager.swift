import CEvent
import Glibc

/// Whoever manages this process as a service, and wants to hear of it: systemd (sd_notify(3)), or what speaks like it.
///
/// One datagram for each message, by a socket that never blocks: a manager that does not read hears nothing.
package final class ServiceManager: Sendable {
    private let address: [UInt8]
    private let socket: Int32
    /// How often the manager wants to hear that we are alive; `nil` when it does not.
    package let watchdogInterval: Duration?

    /// `nil` when nobody wants to hear anything.
    ///
    /// - Parameters:
    ///   - environment: the variables of the process.
    ///   - process: its number.
    package init?(environment: [String: String], process: Int32) {
        // A path, or a name in the abstract namespace behind "@".
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

    /// A word to the manager, such as `READY=1`. What it is for stands in sd_notify(3).
    package func tell(_ words: String...) { send(words, passing: nil) }

    /// Leaves a socket for the next run. The manager keeps it without watching it: that a phone cannot be reached is an
    /// error on our socket, and no reason to drop it.
    package func keep(_ descriptor: Int32, as name: String) {
        send(["FDSTORE=1", "FDNAME=\(name)", "FDPOLL=0"], passing: descriptor)
    }

    /// Takes back what an earlier run has left.
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
                // Whoever does not take it is not there any more, or has no room: both are his affair.
                _ = unsafe notify_manager(
                    socket, address.baseAddress, address.count, text.baseAddress, text.count, descriptor ?? -1)
            }
        }
    }
}
