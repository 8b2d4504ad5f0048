import CEvent
import Glibc
import Timekeeping

/// An object with a function that the loop calls when an event fires. The argument `cause` has libevent's `EV_` bits
/// for the reason.
protocol LoopEventTarget: AnyObject {
    func fired(_ cause: Int16)
}

/// The sole owner of one libevent event, and of its descriptor if one was passed.
///
/// The libevent event refers to its target only weakly, through a box. Any thread may release the owner, because an
/// actor's `deinit` runs on the thread that releases the actor last. The libevent event itself is freed on the loop's
/// thread.
@safe
final class LoopEvent {
    let loop: EventLoop
    private let raw: OpaquePointer
    private let box: Unmanaged<Box>

    private final class Box {
        weak var target: (any LoopEventTarget)?
    }

    /// Creates an event for the descriptor or signal `number`, or for a timer if `number` is -1. The argument `flags`
    /// has libevent's `EV_` bits.
    init(loop: EventLoop, number: Int32, flags: Int32, turn: LoopTurn = .usual) throws(SystemError) {
        loop.checkThread()
        let box = unsafe Unmanaged.passRetained(Box())
        guard
            let raw = unsafe event_new(
                loop.base, number, Int16(truncatingIfNeeded: flags), Self.callback, box.toOpaque())
        else {
            unsafe box.release()
            throw SystemError(call: "event_new", code: ENOMEM)
        }
        unsafe event_priority_set(raw, turn.rawValue)
        self.loop = loop
        unsafe self.raw = raw
        unsafe self.box = box
    }

    deinit {
        let remains = unsafe Remains(raw: raw, box: box)
        loop.dispose { remains.free() }
    }

    /// libevent's objects for an event, freed on the loop's thread.
    ///
    /// - The type is `@unchecked Sendable`, because it moves to the loop and is used once.
    @safe
    private struct Remains: @unchecked Sendable {
        let raw: OpaquePointer
        let box: Unmanaged<Box>

        func free() {
            unsafe event_free(raw)
            unsafe box.release()
        }
    }

    /// Sets the object whose function `fired` is called when the event happens. The owner calls ``setTarget(_:)`` once,
    /// at the end of its initialiser.
    func setTarget(_ target: some LoopEventTarget) {
        unsafe box.takeUnretainedValue().target = target
    }

    func add() throws(SystemError) {
        loop.checkThread()
        guard unsafe event_add(raw, nil) == 0 else { throw SystemError(call: "event_add", code: errno) }
    }

    func add(timeout: Duration) {
        loop.checkThread()
        var interval = timeval(timeout)
        // `event_add` fails only if memory is lacking, and the daemon cannot continue without timers.
        guard unsafe event_add(raw, &interval) == 0 else { preconditionFailure("out of memory for a timer") }
    }

    func remove() {
        loop.checkThread()
        unsafe event_del(raw)
    }

    /// Makes the event ready, so that its callback runs in the loop's current iteration.
    func activate() {
        loop.checkThread()
        unsafe event_active(raw, Int32(EV_TIMEOUT), 0)
    }

    private static let callback: event_callback_fn = { _, cause, context in
        guard let context = unsafe context else { return }
        unsafe Unmanaged<Box>.fromOpaque(context).takeUnretainedValue().target?.fired(cause)
    }
}

extension timeval {
    /// Converts a duration for libevent; a negative duration becomes zero. Fractions of a microsecond are rounded up,
    /// so that no timer fires early.
    init(_ duration: Duration) {
        let (whole, rest) = max(duration, .zero).nanoseconds.quotientAndRemainder(dividingBy: 1000)
        let (seconds, microseconds) = (whole + (rest > 0 ? 1 : 0)).quotientAndRemainder(dividingBy: 1_000_000)
        self.init(tv_sec: Int(seconds), tv_usec: Int(microseconds))
    }
}
