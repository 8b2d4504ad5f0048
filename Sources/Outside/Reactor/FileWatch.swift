import CEvent

/// Calls a handler when a descriptor can be read or written. A watch owns its descriptor only if
/// ``init(owning:on:turn:until:handler:)`` created the watch.
///
/// If a watch does not own its descriptor, its owner releases the watch before somebody closes the descriptor.
///
/// - The type is `@unchecked Sendable`, because every use is checked to be on the loop's thread.
package final class FileWatch: @unchecked Sendable {
    package struct Interest: OptionSet, Hashable, Sendable {
        package let rawValue: UInt8

        package init(rawValue: UInt8) { self.rawValue = rawValue }

        package static let read = Interest(rawValue: 1)
        package static let write = Interest(rawValue: 2)
    }

    package let descriptor: Int32
    private let owned: LoopDescriptor?
    private var reading: LoopEvent?
    private var writing: LoopEvent?
    private let handler: (Interest) -> Void
    private(set) package var interest: Interest = []
    private let readingTarget: Target
    private let writingTarget: Target

    /// Creates a watch that does not own the descriptor, and that calls the handler only after ``watch(for:)``.
    ///
    /// - Parameters:
    ///   - descriptor: the descriptor that the loop watches.
    ///   - loop: the event loop that waits for events on the descriptor.
    ///   - turn: the priority of the handler.
    ///   - deadline: the timer that limits the wait, or `nil`; its priority must not be lower than `turn`.
    ///   - handler: called while the descriptor is ready.
    /// - Throws: an error if memory is lacking.
    package convenience init(
        descriptor: Int32, on loop: EventLoop, turn: LoopTurn = .usual, until deadline: LoopTimer?,
        handler: @escaping (_ ready: Interest) -> Void
    ) throws(SystemError) {
        try self.init(
            descriptor: descriptor, owned: nil, loop: loop, turn: turn, deadline: deadline, handler: handler)
    }

    /// Creates a watch that closes the descriptor when the watch is released.
    convenience init(
        owning descriptor: consuming Descriptor, on loop: EventLoop, turn: LoopTurn = .usual,
        until deadline: LoopTimer?, handler: @escaping (_ ready: Interest) -> Void
    ) throws(SystemError) {
        let owned = LoopDescriptor(descriptor, on: loop)
        try self.init(
            descriptor: owned.number, owned: owned, loop: loop, turn: turn, deadline: deadline, handler: handler)
    }

    private init(
        descriptor: Int32, owned: LoopDescriptor?, loop: EventLoop, turn: LoopTurn, deadline: LoopTimer?,
        handler: @escaping (_ ready: Interest) -> Void
    ) throws(SystemError) {
        if let deadline { precondition(deadline.turn <= turn, "a watch has an earlier turn than its deadline") }
        self.descriptor = descriptor
        self.owned = owned
        self.handler = handler
        let reading = try LoopEvent(loop: loop, number: descriptor, flags: EV_READ | EV_PERSIST, turn: turn)
        let writing = try LoopEvent(loop: loop, number: descriptor, flags: EV_WRITE | EV_PERSIST, turn: turn)
        self.reading = reading
        self.writing = writing
        readingTarget = Target(readiness: .read)
        writingTarget = Target(readiness: .write)
        readingTarget.watch = self
        writingTarget.watch = self
        reading.setTarget(readingTarget)
        writing.setTarget(writingTarget)
    }

    deinit {
        // Events are removed before the descriptor is closed, because a new file can get the same descriptor number.
        reading = nil
        writing = nil
    }

    /// The loop calls the handler again and again while the descriptor is ready for `interest`.
    package func watch(for interest: Interest) throws(SystemError) {
        try set(reading, on: interest.contains(.read), was: self.interest.contains(.read))
        try set(writing, on: interest.contains(.write), was: self.interest.contains(.write))
        self.interest = interest
    }

    private func set(_ event: LoopEvent?, on: Bool, was: Bool) throws(SystemError) {
        guard on != was else { return }
        if on { try event?.add() } else { event?.remove() }
    }

    private final class Target: LoopEventTarget {
        let readiness: Interest
        weak var watch: FileWatch?

        init(readiness: Interest) { self.readiness = readiness }

        func fired(_ cause: Int16) { watch?.handler(readiness) }
    }
}
