import Collections

/// Divides a loop's time under load between its connections and all other work.
///
/// The start and the end of connections are handled a few at a time, in the turn of connections. If thousands of
/// connections open or close together, other events are handled in between.
///
/// Events of this object retain it, so an event exists only while work waits for it.
final class ConnectionTurns {
    private unowned let loop: EventLoop
    private var work = Queue<() -> Void>()
    private var workEvent: LoopEvent?
    private lazy var workTarget = Target { [unowned self] in goOn() }

    /// Callbacks that gave way. They are called after connections had their turn.
    private var waiting: [() -> Void] = []
    private var served = 0
    /// How many times connections with the usual turn were served since a connection with another turn was last served.
    private var usualInARow = 0
    private var wayEvent: LoopEvent?
    private lazy var wayTarget = Target { [unowned self] in takeWay() }

    /// How many connections are started or ended before the loop looks for new events.
    static let workInARow = 4
    /// The limit of services to connections in a row. After it, the callbacks that gave way continue, or a connection
    /// with the usual turn gives way.
    private static let servedInARow = 64

    init(of loop: EventLoop) { self.loop = loop }

    private final class Target: LoopEventTarget {
        private let handler: () -> Void

        init(_ handler: @escaping () -> Void) { self.handler = handler }

        func fired(_ cause: Int16) { handler() }
    }

    /// Makes an event of the connections' turn; `nil` if memory is lacking.
    private func event(for target: Target) -> LoopEvent? {
        let event = try? LoopEvent(loop: loop, number: -1, flags: 0, turn: .connections)
        event?.setTarget(target)
        return event
    }

    // MARK: Beginnings and ends

    /// Runs the job after all jobs that were added before it. The job never runs before this function has returned.
    func doLater(_ job: @escaping () -> Void) {
        work.append(job)
        guard workEvent == nil else { return }
        // This fails only if memory is lacking. The next job then tries again.
        workEvent = event(for: workTarget)
        workEvent?.add(timeout: .zero)
    }

    private func goOn() {
        for _ in 0..<Self.workInARow {
            guard let job = work.popFirst() else { break }
            job()
        }
        // The loop notices a timeout only after it has asked the kernel for other ready events.
        if work.isEmpty { workEvent = nil } else { workEvent?.add(timeout: .zero) }
    }

    // MARK: Giving way

    /// Calls the job after all ready connections had their turn, or many of them.
    func giveWay(_ job: @escaping () -> Void) {
        waiting.append(job)
        guard wayEvent == nil else { return }
        served = 0
        wayEvent = event(for: wayTarget)
        if let wayEvent { wayEvent.activate() } else { takeWay() }
    }

    /// Call after a connection was served in its turn.
    ///
    /// - Returns: whether the connection must give way now. This is so if its turn precedes the turn of connections,
    ///   and no connection of that turn was served for a while.
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
