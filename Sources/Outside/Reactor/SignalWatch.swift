import CEvent
import Glibc

/// Calls a handler on the loop for each Unix signal of one kind. libevent allows signal watches on only one loop of the
/// process.
///
/// The watch also works if the parent process had blocked the signal.
///
/// - The type is `@unchecked Sendable`, because every use is checked to be on the loop's thread.
package final class SignalWatch: @unchecked Sendable {
    package enum Signal: Sendable {
        case terminate, interrupt, hangup

        var number: Int32 {
            switch self {
            case .terminate: SIGTERM
            case .interrupt: SIGINT
            case .hangup: SIGHUP
            }
        }
    }

    private let event: LoopEvent
    private let handler: () -> Void

    package init(_ signal: Signal, on loop: EventLoop, handler: @escaping () -> Void) throws(SystemError) {
        event = try LoopEvent(loop: loop, number: signal.number, flags: EV_SIGNAL | EV_PERSIST)
        self.handler = handler
        event.setTarget(self)
        try event.add()
        // Unblocking a signal cannot fail, because all signals of the enum are valid.
        loop.post { try? System.unblock(signal.number) }
    }
}

extension SignalWatch: LoopEventTarget {
    func fired(_ cause: Int16) { handler() }
}
