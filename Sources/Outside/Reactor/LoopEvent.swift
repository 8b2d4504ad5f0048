import CEvent
import Glibc
import Timekeeping

/// The receiver of an event. The argument is libevent's `EV_` bits.
protocol LoopEventTarget: AnyObject {
    func fired(_ cause: Int16)
}

/// Sole owner of one libevent event, and of its descriptor if one was passed.
///
/// A box that the event keeps holds the target weakly: an owner may be released on any thread (an actor's deinit runs
/// on the thread of its last reference), while the event is freed on the loop.
@safe
final class LoopEvent {
    let loop: EventLoop
    private let raw: OpaquePointer
    private let box: Unmanaged<Box>

    private final class Box {
        weak var target: (any LoopEventTarget)?
    }

    /// `number` is a descriptor, a signal number or -1 for a timer; `flags` are libevent's `EV_` bits.
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

    /// - `@unchecked Sendable` because it moves to the loop and is used once.
    @safe
    private struct Remains: @unchecked Sendable {
        let raw: OpaquePointer
        let box: Unmanaged<Box>

        func free() {
            unsafe event_free(raw)
            unsafe box.release()
        }
    }

    /// Sets the target. The owner calls it once, after its own initialiser.
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
        // Fails only if the timer heap cannot grow for lack of memory. Nothing here survives that.
        guard unsafe event_add(raw, &interval) == 0 else { preconditionFailure("out of memory for a timer") }
    }

    func remove() {
        loop.checkThread()
        unsafe event_del(raw)
    }

    /// Lets the callback run in this turn of the loop.
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
    /// Never negative, rounded up to a microsecond.
    init(_ duration: Duration) {
        let (whole, rest) = max(duration, .zero).nanoseconds.quotientAndRemainder(dividingBy: 1000)
        let (seconds, microseconds) = (whole + (rest > 0 ? 1 : 0)).quotientAndRemainder(dividingBy: 1_000_000)
        self.init(tv_sec: Int(seconds), tv_usec: Int(microseconds))
    }
}
