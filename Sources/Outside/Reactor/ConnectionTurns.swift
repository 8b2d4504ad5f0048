import Collections

/// Divides a loop's time under load between connections and all other work.
///
/// The loop starts and ends only a few connections at a time. If thousands of connections open or close together, the
/// loop handles other events in between.
///
/// The events of this object retain the object, so each event exists only while work waits for the event.
final class ConnectionTurns {
    private unowned let loop: EventLoop
    private var work = Queue<() -> Void>()
    private var workEvent: LoopEvent?
    private lazy var workTarget = Target { [unowned self] in goOn() }

    /// Callbacks that wait until connections were served.
    private var waiting: [() -> Void] = []
    private var served = 0
    /// How many connections with the usual priority were served since a connection with another priority was served.
    private var usualInARow = 0
    private var wayEvent: LoopEvent?
    private lazy var wayTarget = Target { [unowned self] in takeWay() }

    /// How many connections are started or ended before the loop looks for new events.
    static let workInARow = 4
    /// The number of connections that are served in a row, before the waiting callbacks are called, or a connection
    /// with the usual priority must wait.
    private static let servedInARow = 64

    init(of loop: EventLoop) { self.loop = loop }

    private final class Target: LoopEventTarget {
        private let handler: () -> Void

        init(_ handler: @escaping () -> Void) { self.handler = handler }

        func fired(_ cause: Int16) { handler() }
    }

    /// Creates an event with the priority of connections; `nil` if memory is lacking.
    private func event(for target: Target) -> LoopEvent? {
        let event = try? LoopEvent(loop: loop, number: -1, flags: 0, turn: .connections)
        event?.setTarget(target)
        return event
    }

    // MARK: Beginnings and ends

    /// Runs the job after all jobs that were added before it, and never before this function has returned.
    func doLater(_ job: @escaping () -> Void) {
        work.append(job)
        guard workEvent == nil else { return }
        // If memory is lacking, the event cannot be created here, and the next job tries to create it.
        workEvent = event(for: workTarget)
        workEvent?.add(timeout: .zero)
    }

    private func goOn() {
        for _ in 0..<Self.workInARow {
            guard let job = work.popFirst() else { break }
            job()
        }
        // The event is added with a timeout, because the loop handles timeouts only after it has asked the kernel for
        // ready events.
        if work.isEmpty { workEvent = nil } else { workEvent?.add(timeout: .zero) }
    }

    // MARK: Giving way

    /// Calls the job when all ready connections, or many of them, have been served.
    func giveWay(_ job: @escaping () -> Void) {
        waiting.append(job)
        guard wayEvent == nil else { return }
        served = 0
        wayEvent = event(for: wayTarget)
        if let wayEvent { wayEvent.activate() } else { takeWay() }
    }

    /// Counts a connection that was served, and decides whether it must wait now.
    ///
    /// - Returns: whether the connection must now wait for other events. The result is true if the connection has the
    ///   usual priority, and no connection of the lower priority was served for a while.
    func mustGiveWay(after turn: LoopTurn) -> Bool {
        switch turn {
        case .usual:
            usualInARow += 1
            guard usualInARow == Self.servedInARow else { return false }
            usualInARow = 0
            return true
        case .connections:
            usualInARow = 0
            guard wayEvent != nil else { return false }
            served += 1
            if served == Self.servedInARow { takeWay() }
            return false
        case .first, .last: return false
        }
    }

    private func takeWay() {
        wayEvent = nil
        let jobs = exchange(&waiting, with: [])
        for job in jobs { job() }
    }
}
