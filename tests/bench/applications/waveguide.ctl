; Meep: a pulse in a waveguide of two dimensions, and the flux that leaves it.
;   mpirun -n 2 meep waveguide.ctl
(set! geometry-lattice (make lattice (size 16 8 no-size)))
(set! geometry (list (make block (center 0 0) (size infinity 1 infinity)
                           (material (make dielectric (epsilon 12))))))
(set! sources (list (make source (src (make gaussian-src (frequency 0.15) (fwidth 0.1)))
                          (component Ez) (center -7 0) (size 0 1))))
(set! pml-layers (list (make pml (thickness 1.0))))
(set! resolution 10)
(define leaves (add-flux 0.15 0 1 (make flux-region (center 6 0) (size 0 2))))
(run-until 60)
(display-fluxes leaves)
