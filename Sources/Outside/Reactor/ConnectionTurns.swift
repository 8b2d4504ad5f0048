import Collections

/// How the connections of a loop and all else on it share its time, when much happens at once.
///
/// What begins and what ends a connection is done a few at a time, in the turn of the connections: when thousands come or go
/// together, whatever else has become ready meanwhile is called between them.
///
/// It belongs to the loop that its events hold, so they are there only while something waits for them.
final class ConnectionTurns {
    private unowned let loop: EventLoop
    private var work = Queue<() -> Void>()
    private var workEvent: LoopEvent?
    private lazy var workTarget = Target { [unowned self] in goOn() }

    /// Who has given way, to be called when connections have had their turn.
    private var waiting: [() -> Void] = []
    private var served = 0
    /// How many times something was done for connections with the usual turn since one of the others had its turn.
    private var usualInARow = 0
    private var wayEvent: LoopEvent?
    private lazy var wayTarget = Target { [unowned self] in takeWay() }

    /// How many connections begin or end before new readiness is looked for.
    static let workInARow = 4
    /// How many times something is done for connections, at most, before those who have given way go on, or must give way.
    private static let servedInARow = 64

    init(of loop: EventLoop) { self.loop = loop }

    private final class Target: LoopEventTarget {
        private let handler: () -> Void

        init(_ handler: @escaping () -> Void) { self.handler = handler }

        func fired(_ cause: Int16) { handler() }
    }

    /// An event of the connections' turn; `nil` for lack of memory.
    private func event(for target: Target) -> LoopEvent? {
        let event = try? LoopEvent(loop: loop, number: -1, flags: 0, turn: .connections)
        event?.setTarget(target)
        return event
    }

    // MARK: Beginnings and ends

    /// Does the job after what was given before it, and never from within the call.
    func doLater(_ job: @escaping () -> Void) {
        work.append(job)
        guard workEvent == nil else { return }
        // Fails only for lack of memory; the next job tries again.
        workEvent = event(for: workTarget)
        workEvent?.add(timeout: .zero)
    }

    private func goOn() {
        for _ in 0..<Self.workInARow {
            guard let job = work.popFirst() else { break }
            job()
        }
        // What is due by time is found only after the kernel was asked what else is ready.
        if work.isEmpty { workEvent = nil } else { workEvent?.add(timeout: .zero) }
    }

    // MARK: Giving way

    /// Calls the job when all connections that are ready have had their turn, or many of them.
    func giveWay(_ job: @escaping () -> Void) {
        waiting.append(job)
        guard wayEvent == nil else { return }
        served = 0
        wayEvent = event(for: wayTarget)
        if let wayEvent { wayEvent.activate() } else { takeWay() }
    }

    /// To be called when something was done for a connection in its turn.
    ///
    /// - Returns: whether it must give way now: its turn comes before that of the others, and it was its turn, or that of others
    ///   like it, all the time.
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
