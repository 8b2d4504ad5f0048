import SIPGrammar

/// The state of dialogs that does not fit into their tokens.
package struct Dialogs {
    /// A random number that stands for this run of the program in dialog tokens, because connection numbers are not
    /// valid in other runs.
    package let run: UInt32
    /// The dialogs that were renewed, with their new ends.
    package var renewals = DialogRenewals()
    package var provedPlaces = ProvedPlaces()
    package var devices = DialogDevices()

    package init(run: UInt32) { self.run = run }
}
