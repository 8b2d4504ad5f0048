package import Collections

extension TimelineRecord {
    /// The times of the steps after ``TimelineRecord/requestedAt``, measured with the monotonic clock.
    package struct Steps: Hashable, Sendable {
        /// The time at which the first try of the push was sent.
        @PackedOptional package var sentAt: StepTime?
        /// The time at which the provider's last answer arrived.
        @PackedOptional package var answeredAt: StepTime?
        /// The time at which a REGISTER of the phone arrived.
        @PackedOptional package var registeredAt: StepTime?
        @PackedOptional package var invitedAt: StepTime?
        /// The time at which the phone responded with 180 or a higher status.
        @PackedOptional package var rangAt: StepTime?
        @PackedOptional package var endedAt: StepTime?

        package init() {}
    }
}

/// The times of the steps in milliseconds.
extension TimelineRecord.Steps {
    package var sent: Int32? {
        get { sentAt?.milliseconds }
        set { sentAt = newValue.map { StepTime(milliseconds: $0) } }
    }

    package var answered: Int32? {
        get { answeredAt?.milliseconds }
        set { answeredAt = newValue.map { StepTime(milliseconds: $0) } }
    }

    package var registered: Int32? {
        get { registeredAt?.milliseconds }
        set { registeredAt = newValue.map { StepTime(milliseconds: $0) } }
    }

    package var invited: Int32? {
        get { invitedAt?.milliseconds }
        set { invitedAt = newValue.map { StepTime(milliseconds: $0) } }
    }

    package var rang: Int32? {
        get { rangAt?.milliseconds }
        set { rangAt = newValue.map { StepTime(milliseconds: $0) } }
    }

    package var ended: Int32? {
        get { endedAt?.milliseconds }
        set { endedAt = newValue.map { StepTime(milliseconds: $0) } }
    }
}
